// A unit is cut into atoms: the largest ranges for which, on every host, one rank carries the whole
// range. In the exchange form every host sums every atom; otherwise each atom is summed by one
// host, its owner. If all hosts have the same number of ranks, each rank's share is one contiguous
// range, which takes few messages inside a host. Otherwise each host's part is contiguous and is
// cut wherever the share of a rank begins on a host of any size.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/rows.h"

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
  int owner;                // host
  std::vector<int> member;  // by host: index of the rank that carries it
};

std::vector<Atom> cut_atoms(const Hosts& hosts, Part whole, bool exchange, int64_t align) {
  const int m = hosts.count(), k = hosts.size(0);
  std::vector<Atom> atoms;
  const auto add = [&](Part part, int owner, std::vector<int> member) {
    if (!part.empty()) atoms.push_back({part, owner, std::move(member)});
  };
  if (hosts.equal_sizes()) {
    for (int j = 0; j < k; ++j) {
      const Part share = cut(whole, k, j, align);
      if (exchange) add(share, kEveryHost, std::vector<int>(m, j));
      for (int h = 0; h < m && !exchange; ++h)
        add(cut(share, m, h, align), h, std::vector<int>(m, j));
    }
    return atoms;
  }
  for (int owner = 0; owner < (exchange ? 1 : m); ++owner) {
    const Part part = exchange ? whole : cut(whole, m, owner, align);
    std::set<int64_t> cuts = {part.begin, part.end};
    for (int h = 0; h < m; ++h)
      for (int j = 1; j < hosts.size(h); ++j) cuts.insert(cut(part, hosts.size(h), j, align).begin);
    for (auto at = cuts.begin(); std::next(at) != cuts.end(); ++at) {
      const Part atom{*at, *std::next(at)};
      std::vector<int> member(m);
      for (int h = 0; h < m; ++h)
        while (cut(part, hosts.size(h), member[h], align).end < atom.end) ++member[h];
      add(atom, exchange ? kEveryHost : owner, std::move(member));
    }
  }
  return atoms;
}

class Hierarchical {
 public:
  Hierarchical(const Problem& p, int64_t unit, bool exchange)
      : b_(p),
        hosts_(b_.hosts),
        exchange_(exchange),
        host_(hosts_.host[p.rank]),
        index_(hosts_.index[p.rank]),
        neighbours_(hosts_.members[host_]),
        atoms_(cut_atoms(hosts_, unit_of_tensor(p, unit), exchange, share_align(p, exchange))),
        summed_(atoms_.size(), -1),
        final_(atoms_.size(), -1),
        own_(atoms_.size()) {}

  Schedule run() {
    sum_inside_host();
    for (size_t a = 0; a < atoms_.size(); ++a)
      if (carries(a)) contribute(a);
    for (size_t a = 0; a < atoms_.size(); ++a)
      if (carries(a)) sum_over_hosts(a);
    spread_inside_host();
    return b_.take();
  }

 private:
  // Adjacent atoms that one member of this host carries, as one range.
  struct Share {
    Part part;
    std::vector<size_t> atoms;
  };
  std::vector<Share> shares(int member) const {
    std::vector<Share> result;
    for (size_t a = 0; a < atoms_.size(); ++a) {
      if (atoms_[a].member[host_] != member) continue;
      if (result.empty() || result.back().part.end != atoms_[a].part.begin)
        result.push_back({{atoms_[a].part.begin, atoms_[a].part.begin}, {}});
      result.back().part.end = atoms_[a].part.end;
      result.back().atoms.push_back(a);
    }
    return result;
  }

  bool alone() const { return neighbours_.size() == 1; }
  bool carries(size_t a) const { return atoms_[a].member[host_] == index_; }
  int carrier(size_t a, int host) const { return hosts_.members[host][atoms_[a].member[host]]; }
  bool sums_here(size_t a) const { return exchange_ || atoms_[a].owner == host_; }

  // The part of its host's sum that the rank carries is kept in the output.
  Place host_sum(size_t a) const {
    return alone() ? input(atoms_[a].part.begin) : output(atoms_[a].part.begin);
  }

  // Tags between two ranks: inside a host 2s and 2s + 1 for share s on the way there and back,
  // between hosts the same for atoms.
  void sum_inside_host() {
    if (alone()) return;
    for (const int member : Builder::others(index_, hosts_.size(host_))) {
      int tag = 0;
      for (const Share& share : shares(member)) {
        b_.send(neighbours_[member], tag, input(share.part.begin), share.part.count());
        tag += 2;
      }
    }
    int tag = 0;
    for (const Share& share : shares(index_)) {
      const int64_t count = share.part.count();
      std::vector<Source> sources(neighbours_.size());
      Steps received;
      for (const int member : Builder::others(index_, hosts_.size(host_))) {
        sources[member].place = b_.scratch(count);
        received.push_back(b_.receive(neighbours_[member], tag, sources[member].place, count));
      }
      sources[index_].place = input(share.part.begin);
      for (size_t i = 1; i < sources.size(); ++i) sources[i].begins_host = false;
      const int32_t sum = b_.reduce(sources, output(share.part.begin), count, false, received);
      for (const size_t a : share.atoms) summed_[a] = sum;
      tag += 2;
    }
  }

  // Sends this host's sum of an atom to the ranks that add the hosts' sums.
  void contribute(size_t a) {
    const Part part = atoms_[a].part;
    const int tag = static_cast<int>(2 * a);
    Place from = host_sum(a);
    Steps ready = {summed_[a]};
    if (b_.problem.coded && (exchange_ || !sums_here(a))) {
      from = b_.slot(part.count());
      ready = {b_.encode(host_sum(a), from, part.count(), false, ready)};
    }
    own_[a] = {from, ready[0]};
    for (const int h : Builder::others(host_, hosts_.count())) {
      if (!exchange_ && atoms_[a].owner != h) continue;
      const int32_t sent = b_.send(carrier(a, h), tag, from, part.count(), ready);
      own_[a].sent.push_back(sent);
    }
  }

  void sum_over_hosts(size_t a) {
    const Part part = atoms_[a].part;
    const int64_t count = part.count();
    const bool coded = b_.problem.coded;
    const int tag = static_cast<int>(2 * a);
    if (!sums_here(a)) {
      const int from = carrier(a, atoms_[a].owner);
      if (!coded) {
        final_[a] = b_.receive(from, tag + 1, output(part.begin), count);
        return;
      }
      const Place slot = b_.slot(count);
      const int32_t received = b_.receive(from, tag + 1, slot, count);
      final_[a] = b_.decode(slot, output(part.begin), count, {&received, 1});
      return;
    }

    std::vector<Source> sources(hosts_.count());
    Steps ready = own_[a].sent;  // they read what the sum may overwrite
    ready.push_back(own_[a].ready);
    for (const int h : Builder::others(host_, hosts_.count())) {
      sources[h].place = coded ? b_.slot(count) : b_.scratch(count);
      ready.push_back(b_.receive(carrier(a, h), tag, sources[h].place, count));
    }
    sources[host_].place = own_[a].place;
    for (int h = 0; h < hosts_.count(); ++h) sources[h].host_sum = hosts_.size(h) > 1;
    final_[a] = b_.reduce(sources, output(part.begin), count, true, ready);
    if (exchange_) return;

    Place result = output(part.begin);
    if (coded) {
      result = b_.slot(count);
      final_[a] = b_.encode(output(part.begin), result, count, true, {&final_[a], 1});
    }
    for (const int h : Builder::others(host_, hosts_.count()))
      b_.send(carrier(a, h), tag + 1, result, count, {&final_[a], 1});
  }

  void spread_inside_host() {
    int tag = 1;
    for (const Share& share : shares(index_)) {
      Steps ready;
      for (const size_t a : share.atoms) ready.push_back(final_[a]);
      for (const int member : Builder::others(index_, hosts_.size(host_)))
        b_.send(neighbours_[member], tag, output(share.part.begin), share.part.count(), ready);
      tag += 2;
    }
    for (const int member : Builder::others(index_, hosts_.size(host_))) {
      int tag_of_member = 1;
      for (const Share& share : shares(member)) {
        b_.receive(neighbours_[member], tag_of_member, output(share.part.begin),
                   share.part.count());
        tag_of_member += 2;
      }
    }
  }

  struct Contribution {
    Place place;
    int32_t ready = -1;
    Steps sent = {};
  };

  Builder b_;
  const Hosts& hosts_;
  const bool exchange_;
  const int host_, index_;
  const std::vector<int>& neighbours_;
  const std::vector<Atom> atoms_;
  Steps summed_, final_;           // by atom: the steps that yield the host's sum and the result
  std::vector<Contribution> own_;  // by atom
};

Cost cost_of(const Problem& p, bool exchange) {
  const Hosts hosts = find_hosts(p.host);
  const double count = static_cast<double>(p.count), m = hosts.count(), k = hosts.largest();
  const double carriers =
      std::clamp(std::ceil(count / static_cast<double>(share_align(p, exchange))), 1.0, k);
  Cost cost;
  cost.wire_rounds = exchange ? 1 : 2;
  cost.local_rounds = k > 1 ? 2 : 0;
  cost.wire_messages = carriers * (exchange ? m - 1 : 2 * (m - 1));
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
  const Hosts hosts = find_hosts(p.host);
  if (hosts.count() == 1) return "all ranks are on one host";
  if (hosts.largest() == 1) return "no host has several ranks";
  return "";
}

Cost all_reduce_hierarchical_cost(const Problem& p) { return cost_of(p, false); }
Cost all_reduce_hierarchical_exchange_cost(const Problem& p) { return cost_of(p, true); }

}  // namespace stretto::comm
