// In the exchange form every host sums every share; otherwise each share is cut into one atom for
// every host, which sums it.
#include <algorithm>
#include <numeric>

#include "stretto/comm/collective/all_reduce/in_host.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/comm/collective/sum_order.h"

namespace stretto::comm {
namespace {

constexpr int kEveryHost = -1;

// The least that one rank carries. Small tensors then cross the wire in one message instead of one
// per rank of a host: at 4 KB a second message costs more than it saves.
constexpr int64_t kLeastShare = 1024;

int64_t share_align(const Problem& p, bool exchange) {
  return exchange ? std::lcm(p.align, kLeastShare) : p.align;
}

struct Atom {
  Part part;
  int owner = kEveryHost;  // host
  const Share* share = nullptr;
  int tag = 0;
  Place contribution = {};  // of this host
  Steps ready = {}, sent = {};
};

class Hierarchical {
 public:
  Hierarchical(const Problem& p, int64_t unit, bool exchange)
      : b_(p),
        hosts_(b_.hosts),
        exchange_(exchange),
        inside_(b_, unit_of_tensor(p, unit), share_align(p, exchange)) {
    for (const Share& share : inside_.own()) {
      for (int h = 0; h < (exchange ? 1 : hosts_.count()); ++h) {
        const Part part = exchange ? share.part : cut(share.part, hosts_.count(), h, p.align);
        const int tag = 2 * (exchange ? share.number : share.number * hosts_.count() + h);
        if (!part.empty()) atoms_.push_back({part, exchange ? kEveryHost : h, &share, tag});
      }
    }
  }

  Schedule run() {
    const int32_t summed = inside_.sum();
    for (Atom& atom : atoms_) contribute(atom, summed);
    Steps final;
    for (const Atom& atom : atoms_) final.push_back(sum_over_hosts(atom));
    inside_.spread(final);
    return b_.take();
  }

 private:
  bool sums_here(const Atom& a) const { return exchange_ || a.owner == inside_.host(); }

  Place host_sum(const Atom& a) const {
    return inside_.host_sum(*a.share) + (a.part.begin - a.share->part.begin);
  }

  // Sends this host's sum of an atom to the ranks that add the hosts' sums. Tags between two hosts:
  // an atom's own one on the way there, the next one on the way back.
  void contribute(Atom& a, int32_t summed) {
    a.contribution = host_sum(a);
    a.ready = {summed};
    if (b_.problem.coded && (exchange_ || !sums_here(a))) {
      a.contribution = b_.slot(a.part.count());
      a.ready = {b_.encode(host_sum(a), a.contribution, a.part.count(), false, a.ready)};
    }
    if (!sums_here(a)) {
      send(a, a.owner);
      return;
    }
    if (!exchange_) return;
    for (const int h : Builder::others(inside_.host(), hosts_.count())) send(a, h);
  }

  void send(Atom& a, int host) {
    a.sent.push_back(
        b_.send(a.share->carrier(hosts_, host), a.tag, a.contribution, a.part.count(), a.ready));
  }

  int32_t sum_over_hosts(const Atom& a) {
    const Part part = a.part;
    const int64_t count = part.count();
    const bool coded = b_.problem.coded;
    if (!sums_here(a)) {
      const int from = a.share->carrier(hosts_, a.owner);
      if (!coded) return b_.receive(from, a.tag + 1, output(part.begin), count);
      const Place slot = b_.slot(count);
      const int32_t received = b_.receive(from, a.tag + 1, slot, count);
      return b_.decode(slot, output(part.begin), count, {&received, 1});
    }

    std::vector<std::vector<Source>> by_host(static_cast<size_t>(hosts_.count()));
    Steps ready = a.sent;  // they read what the sum may overwrite
    ready.insert(ready.end(), a.ready.begin(), a.ready.end());
    const auto contribution = [&](int h, Place place) {
      by_host[h] = {{.place = place, .host_sum = hosts_.size(h) > 1}};
    };
    for (const int h : Builder::others(inside_.host(), hosts_.count())) {
      contribution(h, coded ? b_.slot(count) : b_.scratch(count));
      ready.push_back(b_.receive(a.share->carrier(hosts_, h), a.tag, by_host[h][0].place, count));
    }
    contribution(inside_.host(), a.contribution);
    int32_t final = sum_hosts(b_, by_host, output(part.begin), count, ready);
    if (exchange_) return final;

    Place result = output(part.begin);
    if (coded) {
      result = b_.slot(count);
      final = b_.encode(output(part.begin), result, count, true, {&final, 1});
    }
    for (const int h : Builder::others(inside_.host(), hosts_.count()))
      b_.send(a.share->carrier(hosts_, h), a.tag + 1, result, count, {&final, 1});
    return final;
  }

  Builder b_;
  const Hosts& hosts_;
  const bool exchange_;
  InHost inside_;
  std::vector<Atom> atoms_;  // those that this rank carries
};

Cost cost_of(const Problem& p, bool exchange) {
  const Hosts& hosts = p.host.hosts();
  const double count = static_cast<double>(p.count), m = hosts.count(), k = hosts.largest();
  const double carried = carriers(p, share_align(p, exchange));
  Cost cost;
  cost.wire_rounds = exchange ? 1 : 2;
  cost.local_rounds = k > 1 ? 2 : 0;
  cost.wire_messages = carried * (exchange ? m - 1 : 2 * (m - 1));
  cost.local_messages = 2 * (k - 1);
  cost.wire_elements = exchange ? (m - 1) * count : 2 * (m - 1) / m * count;
  cost.local_elements = 2 * (k - 1) / k * count;
  cost.summed_elements = count + (exchange ? m * count : count) / k;
  return cost;
}

}  // namespace

Schedule all_reduce_hierarchical(const Problem& p, int64_t unit) {
  return Hierarchical(p, unit, false).run();
}

Schedule all_reduce_hierarchical_exchange(const Problem& p, int64_t unit) {
  return Hierarchical(p, unit, true).run();
}

std::string hierarchical_unfit(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  if (hosts.count() == 1) return "all ranks are on one host";
  if (hosts.largest() == 1) return "no host has several ranks";
  return "";
}

Cost all_reduce_hierarchical_cost(const Problem& p) { return cost_of(p, false); }
Cost all_reduce_hierarchical_exchange_cost(const Problem& p) { return cost_of(p, true); }

}  // namespace stretto::comm
