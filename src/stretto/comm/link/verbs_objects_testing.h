// What a mock card's objects hold; for the sources of the mock alone.
#pragma once

#include <deque>

#include "stretto/comm/link/verbs_testing.h"

namespace stretto::comm {

namespace verbs {
struct Device {
  testing::Fabric* fabric;
  testing::MockCard card;
};
struct Pd {
  Context* context;
  int users = 0;
};
}  // namespace verbs

namespace testing {

using namespace verbs;

struct MockContext : Context {
  int users = 0;
};

struct MockChannel : Channel {
  int write_end;
  MockCq* cq = nullptr;
};

struct MockCq : Cq {
  MockChannel* channel;
  size_t most;
  std::deque<Completion> sends, receives;
  bool armed = false;
  unsigned unacknowledged = 0;
  int users = 0;
};

struct MockQp : Qp {
  uint32_t state = 0, remote = 0, send_psn = 0, receive_psn = 0;
  Gid remote_gid{};
  uint16_t remote_lid = 0;
  QueueSizes sizes;
  std::deque<ReceiveRequest> receives;
  std::deque<Piece> receive_pieces;
  struct Send {
    uint64_t id;
    Piece piece;
  };
  std::deque<Send> sends;          // not transferred
  std::deque<uint64_t> delivered;  // whose completion has not come
};

inline Gid gid_of(const MockCard& card) {
  Gid gid{};
  if (card.ethernet) gid[10] = gid[11] = 0xff;
  gid[15] = static_cast<uint8_t>(card.number);
  return gid;
}

inline uint16_t lid_of(const MockCard& card) {
  return card.ethernet ? uint16_t{0} : static_cast<uint16_t>(0x100 + card.number);
}

inline const MockCard& card_of(const Qp* qp) { return qp->context->device->card; }

}  // namespace testing
}  // namespace stretto::comm
