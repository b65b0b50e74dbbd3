// A network and processors that exist in virtual time. Every host has a card that its ranks share,
// and every rank has one processor for its sums and copies. Times follow the link model that the
// engine chooses algorithms with (collective/algorithm.h), but what has to queue is found by
// playing it.
//
// A message between hosts waits for the sender's card, occupies it for wire_message_s and
// wire_byte_s per byte, and does the same to the receiver's card wire_latency_s later. Cards send
// and receive at the same time, first come, first served. A message inside a host occupies the
// sender's processor for local_message_s and, local_latency_s later, the receiver's for
// local_byte_s per byte. Not modelled: loss, congestion control, streams, acknowledgements, and the
// time between an event and the thread that it wakes.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/comm/collective/algorithm.h"

namespace stretto::comm {

class VirtualNetwork {
 public:
  VirtualNetwork(const Hosts& hosts, const LinkModel& link);

  // What happens to a message or a sum, in order of time. The caller gives every one a number.
  struct Event {
    double time_s = 0;
    enum class Kind : uint8_t { kSent, kDelivered, kComputed } kind = Kind::kSent;
    int rank = 0;
    uint64_t number = 0;
  };

  // Starts now, the time of the last event. kSent: the sender may reuse its memory. kDelivered: the
  // receiver has the data. kComputed: `rank` has done so much work. Events of one time come in the
  // order in which they were caused.
  void send(int from, int to, double bytes, uint64_t number);
  void compute(int rank, double seconds, uint64_t number);

  bool idle() const { return queue_.empty(); }
  // The next event; only if not idle. Those inside the network are handled on the way, so there may
  // be none at its end.
  bool next(Event* event);
  double now_s() const { return now_s_; }

  struct Card {
    double out_free_s = 0, in_free_s = 0;
    double sent_bytes = 0, received_bytes = 0;
    int64_t sent_messages = 0, received_messages = 0;
  };
  const std::vector<Card>& cards() const { return cards_; }
  const std::vector<int64_t>& sent_by_rank() const { return sent_; }  // messages, also local ones
  int64_t events() const { return static_cast<int64_t>(made_); }

 private:
  struct Pending {
    double time_s;
    uint64_t order;
    uint64_t number;
    double bytes;
    int32_t rank;
    uint8_t kind;  // of Event, or one of the network's own
  };
  void push(double time_s, uint8_t kind, int rank, uint64_t number, double bytes = 0);
  Pending pop();

  const Hosts& hosts_;
  const LinkModel link_;
  std::vector<Card> cards_;       // by host
  std::vector<double> cpu_free_;  // by rank
  std::vector<int64_t> sent_;
  std::vector<Pending> queue_;  // a heap
  uint64_t made_ = 0;
  double now_s_ = 0;
};

}  // namespace stretto::comm
