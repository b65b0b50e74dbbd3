// The memory and queues of an RDMA pipe.
#pragma once

#include <memory>
#include <string>

#include "stretto/comm/link/rdma_port.h"

namespace stretto::comm {

inline constexpr uint32_t kSlotBytes = 32 << 10;  // largest message, with its header
inline constexpr uint32_t kMostSlots = 32;        // per direction
inline constexpr uint32_t kFewestSlots = 4;

// The address of a queue pair, for the remote rank.
struct RdmaEndpoint {
  uint8_t mtu = 0, link_layer = 0;  // as in verbs::PortAttr
  uint16_t lid = 0;
  verbs::Gid gid{};
  uint32_t qp = 0, psn = 0;
  uint32_t slots = 0, slot_bytes = 0;  // posted receives, and the size of each
};

// A reliable-connected queue pair with as many slots per direction as the card allows, and all
// receives posted. It may be destroyed while requests are outstanding: their memory is freed last.
class RdmaQueues {
 public:
  // Null with a reason.
  static std::unique_ptr<RdmaQueues> create(std::shared_ptr<RdmaPort> port, std::string* reason);
  ~RdmaQueues();
  RdmaQueues(const RdmaQueues&) = delete;
  RdmaQueues& operator=(const RdmaQueues&) = delete;

  RdmaEndpoint endpoint() const;
  bool connect(const RdmaEndpoint& other, std::string* reason);

  uint32_t slots() const { return slots_; }
  std::byte* send_slot(uint32_t i) { return memory_ + size_t{i} * kSlotBytes; }
  std::byte* receive_slot(uint32_t i) { return memory_ + (size_t{slots_} + i) * kSlotBytes; }

  // 0, or an errno. The end is a completion with id `slot`, or `slot` | kReceiveId for a receive.
  int post_send(uint32_t slot, uint32_t bytes);
  int post_receive(uint32_t slot);
  static constexpr uint64_t kReceiveId = uint64_t{1} << 32;

  int poll(verbs::Completion* out, int most);  // number of completions; negative: an error
  int event_descriptor() const { return channel_->fd; }
  // Makes the next completion readable on event_descriptor(); false: the card refused.
  bool arm();
  // Takes events off the descriptor; there are some only after arm().
  void take_events();

 private:
  explicit RdmaQueues(std::shared_ptr<RdmaPort> port) : port_(std::move(port)) {}
  bool make_channel(std::string* reason);
  bool make_queues(std::string* reason);
  bool make_memory(std::string* reason);
  bool post_receives(std::string* reason);

  const std::shared_ptr<RdmaPort> port_;
  verbs::Channel* channel_ = nullptr;
  verbs::Cq* cq_ = nullptr;
  verbs::Qp* qp_ = nullptr;
  verbs::Mr* mr_ = nullptr;
  std::byte* memory_ = nullptr;
  uint32_t slots_ = 0, psn_ = 0;
  bool armed_ = false;
};

}  // namespace stretto::comm
