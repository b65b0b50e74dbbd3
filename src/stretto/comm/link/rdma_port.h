// Ports of RDMA cards, and which of them are used as rails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/comm/link/verbs.h"
#include "stretto/comm/options.h"

namespace stretto::comm {

// An active port of a card, open as long as this object lives. Pipes share it.
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

// The ports that options.rdma selects as rails, in that order. Empty with a reason when it is off,
// or auto without a usable port. Throws InvalidArgument when a port that it names cannot be used.
std::vector<std::shared_ptr<RdmaPort>> open_rdma_ports(const Options& options, std::string* reason);

// What ranks publish about their ports: names, kinds, and why there are none.
struct RdmaRails {
  struct Rail {
    std::string name;
    bool ethernet;
  };
  std::vector<Rail> rails;
  std::string reason;
};
RdmaRails describe(const std::vector<std::shared_ptr<RdmaPort>>& ports, std::string reason);

// The number of rails between two ranks: port i of one is connected to port i of the other, up to
// the first pair of different kinds. 0 with a reason; `rank` is the remote rank. Both sides get the
// same number.
int count_rails(const RdmaRails& own, const RdmaRails& theirs, int rank, std::string* reason);

// How suitable an entry of a port's address table is; 0: not at all. On Ethernet only RoCE v2,
// whose packets are routed like others, IPv4 before IPv6; on InfiniBand any.
int gid_rank(const verbs::Gid& gid, bool ethernet, const std::string& type);

}  // namespace stretto::comm
