#include "stretto/comm/simulate/negotiation.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/comm/negotiate/negotiate.h"
#include "stretto/comm/simulate/network.h"

namespace stretto::comm {
namespace {

constexpr size_t kUsualBytes = 100;  // padding and length, as in unordered_rounds.cc
constexpr uint32_t kWake = 0xffffffff;

class Rounds {
 public:
  Rounds(const Placement& placement, const LinkModel& link)
      : network_(placement.hosts(), link), ranks_(static_cast<size_t>(placement.ranks())) {
    for (int r = 0; r < placement.ranks(); ++r)
      ranks_[r].negotiator = std::make_unique<Negotiator>(r, placement.ranks());
  }

  void submit(int names, std::mt19937& random) {
    std::vector<int> order(static_cast<size_t>(names));
    std::iota(order.begin(), order.end(), 0);
    for (Rank& rank : ranks_) {
      std::shuffle(order.begin(), order.end(), random);
      for (const int name : order)
        rank.negotiator->add(fmt::format("gradient.{}", name), "allreduce of [1024] float32", 0);
    }
  }

  bool idle() const { return ranks_[0].negotiator->idle(); }

  NegotiationRound round() {
    const double began = network_.now_s();
    for (int r = 0; r < size(); ++r) {
      Rank& rank = ranks_[r];
      rank.negotiator->start();
      rank.at = 0;
      rank.bytes = 0;
      rank.messages = 0;
      rank.inbox.assign(static_cast<size_t>(rank.negotiator->exchanges()), {});
      for (int k = 1; k < rank.negotiator->exchanges(); ++k)
        send(r, rank.negotiator->send_to(k), 1, kWake);
      send_next(r);
    }
    VirtualNetwork::Event event;
    while (network_.next(&event)) {
      const auto k = static_cast<uint32_t>(event.number);
      if (event.kind != VirtualNetwork::Event::Kind::kDelivered || k == kWake) continue;
      const auto from = static_cast<int>(event.number >> 32);
      Rank& rank = ranks_[event.rank];
      rank.inbox[k] = std::move(ranks_[from].sent[k]);
      while (rank.at < static_cast<int>(rank.inbox.size()) && !rank.inbox[rank.at].empty()) {
        rank.negotiator->combine(rank.inbox[rank.at++]);
        send_next(event.rank);
      }
    }
    return finish(began);
  }

 private:
  struct Rank {
    std::unique_ptr<Negotiator> negotiator;
    int at = 0;  // exchange whose message comes next
    std::vector<std::vector<std::byte>> inbox, sent;
    double bytes = 0;
    int64_t messages = 0;
  };
  int size() const { return static_cast<int>(ranks_.size()); }

  void send(int from, int to, size_t bytes, uint32_t what) {
    ranks_[from].bytes += static_cast<double>(bytes);
    ++ranks_[from].messages;
    network_.send(from, to, static_cast<double>(bytes), static_cast<uint64_t>(from) << 32 | what);
  }

  void send_next(int r) {
    Rank& rank = ranks_[r];
    const Negotiator& n = *rank.negotiator;
    rank.sent.resize(rank.inbox.size());
    if (rank.at == n.exchanges()) return;
    rank.sent[rank.at] = n.outgoing();
    const size_t padded = kUsualBytes + 16 * ((n.numbers() + 63) / 64);
    send(r, n.send_to(rank.at), std::max(rank.sent[rank.at].size() + 4, padded),
         static_cast<uint32_t>(rank.at));
  }

  NegotiationRound finish(double began) {
    NegotiationRound result{.seconds = network_.now_s() - began};
    for (Rank& rank : ranks_) {
      STRETTO_CHECK(rank.at == rank.negotiator->exchanges(), "a round that never ends");
      const Negotiator::Result agreed = rank.negotiator->finish(0);
      result.agreed = static_cast<int64_t>(agreed.agreed.size());
      result.rank_messages = std::max(result.rank_messages, rank.messages);
      result.rank_bytes = std::max(result.rank_bytes, rank.bytes);
    }
    return result;
  }

  VirtualNetwork network_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::vector<NegotiationRound> simulate_negotiation(const Placement& placement, int names, int steps,
                                                   const LinkModel& link) {
  Rounds rounds(placement, link);
  std::mt19937 random(1);
  std::vector<NegotiationRound> result;
  for (int step = 0; step < steps; ++step) {
    rounds.submit(names, random);
    while (!rounds.idle()) result.push_back(rounds.round());
  }
  return result;
}

}  // namespace stretto::comm
