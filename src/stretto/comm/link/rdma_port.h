// Ports of RDMA cards: which there are, and which of them shall be rails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/comm/link/verbs.h"
#include "stretto/comm/options.h"

namespace stretto::comm {

// An active port of a card that is opened as long as this lives. Pipes share it.
struct RdmaPort {
  RdmaPort(std::shared_ptr<const verbs::Provider> provider, verbs::Context* context);
  ~RdmaPort();
  RdmaPort(const RdmaPort&) = delete;
  RdmaPort& operator=(const RdmaPort&) = delete;

  const std::shared_ptr<const verbs::Provider> provider;
  verbs::Context* const context;
  verbs::Pd* pd = nullptr;
  std::string device;
  int number = 1;  // of the port in its card
  verbs::PortAttr attributes{};
  verbs::Gid gid{};
  int gid_index = 0;

  std::string name() const;  // "mlx5_0:1"
  bool ethernet() const { return attributes.link_layer == verbs::kLinkEthernet; }
};

// The ports that options.rdma wants as rails, in that order. Empty with a reason when it is off, or
// when it is auto and no port is there to use. Throws InvalidArgument when a port that is named
// cannot be used.
std::vector<std::shared_ptr<RdmaPort>> open_rdma_ports(const Options& options, std::string* reason);

// What ranks tell one another of their ports: names, kinds, and why there are none.
struct RdmaRails {
  struct Rail {
    std::string name;
    bool ethernet;
  };
  std::vector<Rail> rails;
  std::string reason;
};
RdmaRails describe(const std::vector<std::shared_ptr<RdmaPort>>& ports, std::string reason);

// How many rails there are between two ranks: port i of one goes with port i of the other, up to
// the first pair of different kinds. 0 with a reason; `rank` is the other one. Both sides count the
// same.
int count_rails(const RdmaRails& own, const RdmaRails& theirs, int rank, std::string* reason);

// How good an entry of a port's table of addresses is for reaching others; 0: not at all. On
// Ethernet RoCE v2, whose packets are routed like others, over IPv4 first, as TCP's; on InfiniBand
// any.
int gid_rank(const verbs::Gid& gid, bool ethernet, const std::string& type);

}  // namespace stretto::comm
