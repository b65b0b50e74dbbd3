// What an RDMA pipe has of its card: memory, and the queues through which the card uses it.
#pragma once

#include <memory>
#include <string>

#include "stretto/comm/link/rdma_port.h"

namespace stretto::comm {

inline constexpr uint32_t kSlotBytes = 32 << 10;  // of a message, header included
inline constexpr uint32_t kMostSlots = 32;        // per direction
inline constexpr uint32_t kFewestSlots = 4;

// Where a queue pair is, for the one that it shall be connected to.
struct RdmaEndpoint {
  uint8_t mtu = 0, link_layer = 0;  // as in verbs::PortAttr
  uint16_t lid = 0;
  verbs::Gid gid{};
  uint32_t qp = 0, psn = 0;
  uint32_t slots = 0, slot_bytes = 0;  // receives that are posted, and what fits into each
};

// A reliable-connected queue pair with as many slots in either direction as the card grants, all
// receives posted. Destroying it while requests are outstanding is in order: their memory goes
// last.
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

  // 0, or an errno. A completion of id `slot`, or `slot` with kReceiveId, tells about its end.
  int post_send(uint32_t slot, uint32_t bytes);
  int post_receive(uint32_t slot);
  static constexpr uint64_t kReceiveId = uint64_t{1} << 32;

  int poll(verbs::Completion* out, int most);  // how many there were; negative: an error
  int event_descriptor() const { return channel_->fd; }
  // Makes the next completion readable on the descriptor; false: the card refuses.
  bool arm();
  // Takes events that were; unless armed there are none.
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
