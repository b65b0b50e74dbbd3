#include "stretto/comm/simulate/network.h"

#include <algorithm>

namespace stretto::comm {
namespace {

// Steps of a message that the network handles itself.
constexpr uint8_t kAtCard = 3, kAtRank = 4;

}  // namespace

VirtualNetwork::VirtualNetwork(const Hosts& hosts, const LinkModel& link)
    : hosts_(hosts),
      link_(link),
      cards_(static_cast<size_t>(hosts.count())),
      cpu_free_(hosts.host.size()),
      sent_(hosts.host.size()) {}

void VirtualNetwork::push(double time_s, uint8_t kind, int rank, uint64_t number, double bytes) {
  queue_.push_back({time_s, made_++, number, bytes, rank, kind});
  std::push_heap(queue_.begin(), queue_.end(), [](const Pending& a, const Pending& b) {
    return a.time_s != b.time_s ? a.time_s > b.time_s : a.order > b.order;
  });
}

VirtualNetwork::Pending VirtualNetwork::pop() {
  std::pop_heap(queue_.begin(), queue_.end(), [](const Pending& a, const Pending& b) {
    return a.time_s != b.time_s ? a.time_s > b.time_s : a.order > b.order;
  });
  const Pending first = queue_.back();
  queue_.pop_back();
  return first;
}

void VirtualNetwork::send(int from, int to, double bytes, uint64_t number) {
  constexpr auto kSent = static_cast<uint8_t>(Event::Kind::kSent);
  ++sent_[from];
  if (hosts_.host[from] == hosts_.host[to]) {
    double& free = cpu_free_[from];
    free = std::max(free, now_s_) + link_.local_message_s;
    push(free, kSent, from, number);
    push(free + link_.local_latency_s, kAtRank, to, number, bytes);
    return;
  }
  Card& card = cards_[hosts_.host[from]];
  const double start = std::max(card.out_free_s, now_s_);
  card.out_free_s = start + link_.wire_message_s + bytes * link_.wire_byte_s;
  card.sent_bytes += bytes;
  ++card.sent_messages;
  push(card.out_free_s, kSent, from, number);
  push(start + link_.wire_latency_s, kAtCard, to, number, bytes);
}

void VirtualNetwork::compute(int rank, double seconds, uint64_t number) {
  double& free = cpu_free_[rank];
  free = std::max(free, now_s_) + seconds;
  push(free, static_cast<uint8_t>(Event::Kind::kComputed), rank, number);
}

bool VirtualNetwork::next(Event* event) {
  constexpr auto kDelivered = static_cast<uint8_t>(Event::Kind::kDelivered);
  while (!queue_.empty()) {
    const Pending p = pop();
    now_s_ = p.time_s;
    if (p.kind == kAtCard) {
      Card& card = cards_[hosts_.host[p.rank]];
      card.in_free_s =
          std::max(card.in_free_s, now_s_) + link_.wire_message_s + p.bytes * link_.wire_byte_s;
      card.received_bytes += p.bytes;
      ++card.received_messages;
      push(card.in_free_s, kDelivered, p.rank, p.number);
    } else if (p.kind == kAtRank) {
      double& free = cpu_free_[p.rank];
      free = std::max(free, now_s_) + p.bytes * link_.local_byte_s;
      push(free, kDelivered, p.rank, p.number);
    } else {
      *event = {p.time_s, static_cast<Event::Kind>(p.kind), p.rank, p.number};
      return true;
    }
  }
  return false;
}

}  // namespace stretto::comm
