// All-reduces between hosts that combine in the order of the tree of hosts (schedule.h), inside
// hosts as hierarchical.cc.
//
// tree_halving (recursive vector halving, distance doubling; after Thakur, Rabenseifner and Gropp,
// "Optimization of collective communication operations in MPICH", 2005). From the leaves of the
// tree to its root, the two children of a node divide every range of elements between them: the
// rank of the left child gets both partial sums of the first half, that of the right child of the
// second half. A host then holds 2^-depth of the sum. The way back, from the root, gives the other
// half of each range the same way. Ranges are cells (levels.h) of equal sizes.
//
// tree_doubling: at every node, each side gets the other's whole partial sum.
//
// Through a codec tree_halving encodes every partial sum, also the one that stays: the sum of two
// sides must not depend on which of them adds a cell. A result is encoded once more for every
// message, which changes nothing in a codec whose values do not depend on each other.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "stretto/comm/collective/all_reduce/in_host.h"
#include "stretto/comm/collective/levels.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

constexpr int64_t kLeastShare = 1024;  // as in hierarchical.cc, for tree_doubling

int64_t share_align(const Problem& p, bool whole) {
  return whole ? std::lcm(p.align, kLeastShare) : p.align;
}

class Halving {
 public:
  Halving(const Problem& p, int64_t unit)
      : b_(p),
        hosts_(b_.hosts),
        inside_(b_, unit_of_tensor(p, unit), share_align(p, false)),
        path_(path_of(hosts_, inside_.host())) {}

  Schedule run() {
    const int32_t summed = inside_.sum();
    Steps final;
    for (const Share& share : inside_.own()) {
      share_ = &share;
      const Steps steps = climb(0, {.part = share.part, .at = inside_.host_sum(share)}, summed);
      final.insert(final.end(), steps.begin(), steps.end());
    }
    inside_.spread(final);
    return b_.take();
  }

 private:
  struct Held {
    Part part;
    int64_t cell = 0;
    Place at = {};
  };

  int cells_depth() const { return hosts_.tree[0].depth; }

  Part part_of(int64_t cell, int depth) const {
    const int finer = cells_depth() - depth;
    const int64_t all = int64_t{1} << cells_depth();
    return {cut_at(share_->part, all, cell << finer, b_.problem.align),
            cut_at(share_->part, all, (cell + 1) << finer, b_.problem.align)};
  }

  // `held` is a partial sum, once `ready` is done, of the hosts below this level. Returns the steps
  // after which its range of the output has the result. Data for the way back may come before the
  // own sends have ended, but not before their receiver has used them.
  Steps climb(size_t at, const Held& held, int32_t ready) {
    if (at == path_.size()) return {ready};
    const Level& level = path_[at];
    const int depth = level.node->depth - 1, finer = level.finer();
    Steps done;
    for (int64_t cell = held.cell << finer; cell < (held.cell + 1) << finer; ++cell) {
      const Part keep = part_of(2 * cell + level.side, depth + 1);
      const Part give = part_of(2 * cell + 1 - level.side, depth + 1);
      const int peer = share_->carrier(hosts_, holder(hosts_, level.sibling, cell, depth));
      const int tag = static_cast<int>(((int64_t{share_->number} << cells_depth()) + cell) * 2);
      send(peer, tag, held.at + (give.begin - held.part.begin), give.count(), {ready},
           level.mine->depth);
      Steps final;
      if (!keep.empty()) {
        const Held kept = {keep, held.cell, held.at + (keep.begin - held.part.begin)};
        const auto [sum, summed] = add(level, kept, peer, tag, ready);
        final = climb(at + 1, {keep, 2 * cell + level.side, sum}, summed);
      }
      send(peer, tag + 1, output(keep.begin), keep.count(), final, 0);
      done.insert(done.end(), final.begin(), final.end());
      done.push_back(receive_result(peer, tag + 1, give));
    }
    return done;
  }

  // Adds the other side's sum to this one: where the sum is, and the step that writes it.
  std::pair<Place, int32_t> add(const Level& level, const Held& held, int peer, int tag,
                                int32_t ready) {
    const bool root = level.node == hosts_.tree.data();
    const int64_t count = held.part.count();
    const Place to = output(held.part.begin);
    if (!b_.problem.coded) {
      const Place got = b_.scratch(count), sum = root ? to : got;
      const Steps both = {b_.receive(peer, tag, got, count), ready};
      return {sum, add_sides(b_, level, held.at, got, sum, count, both)};
    }
    // In the output, because residuals lie where the elements do.
    const Place mine = b_.slot(count), got = b_.slot(count);
    const Steps both = {b_.receive(peer, tag, got, count),
                        b_.encode_sum(held.at, mine, count, false, level.mine->depth, {&ready, 1})};
    const int32_t summed = add_sides(b_, level, mine, got, to, count, both);
    if (!root) return {to, summed};
    return {to, b_.encode_sum(to, b_.slot(count), count, true, 0, {&summed, 1})};
  }

  void send(int peer, int tag, Place from, int64_t count, const Steps& ready, int exponent) {
    if (!b_.problem.coded || count == 0) {
      b_.send(peer, tag, from, count, ready);
      return;
    }
    const Place slot = b_.slot(count);
    const int32_t encoded = b_.encode_sum(from, slot, count, false, exponent, ready);
    b_.send(peer, tag, slot, count, {&encoded, 1});
  }

  int32_t receive_result(int peer, int tag, Part part) {
    const Place to = output(part.begin);
    if (!b_.problem.coded || part.empty()) return b_.receive(peer, tag, to, part.count());
    const Place slot = b_.slot(part.count());
    const int32_t received = b_.receive(peer, tag, slot, part.count());
    return b_.decode(slot, to, part.count(), {&received, 1});
  }

  Builder b_;
  const Hosts& hosts_;
  InHost inside_;
  const std::vector<Level> path_;
  const Share* share_ = nullptr;
};

// The host of the other side whose partial sum the i-th host of a side gets; whom it sends its own.
int source_of(const Level& level, int host) {
  return level.sibling->begin + (host - level.mine->begin) % level.sibling->count();
}

std::vector<int> targets_of(const Level& level, int host) {
  std::vector<int> targets;
  for (int i = host - level.mine->begin; i < level.sibling->count(); i += level.mine->count())
    targets.push_back(level.sibling->begin + i);
  return targets;
}

Cost inside_cost(const Problem& p) {
  const double count = static_cast<double>(p.count), k = p.host.hosts().largest();
  return {.local_rounds = k > 1 ? 2.0 : 0.0,
          .local_messages = 2 * (k - 1),
          .local_elements = 2 * (k - 1) / k * count,
          .summed_elements = k > 1 ? count : 0};
}

}  // namespace

Schedule all_reduce_tree_halving(const Problem& p, int64_t unit) { return Halving(p, unit).run(); }

Schedule all_reduce_tree_doubling(const Problem& p, int64_t unit) {
  Builder b(p);
  InHost inside(b, unit_of_tensor(p, unit), share_align(p, true));
  const std::vector<Level> path = path_of(b.hosts, inside.host());
  const int32_t summed = inside.sum();
  Steps final;
  for (const Share& share : inside.own()) {
    const int64_t count = share.part.count();
    Place held = inside.host_sum(share);
    Steps ready = {summed}, sent;
    for (const Level& level : path) {
      for (const int host : targets_of(level, inside.host()))
        sent.push_back(b.send(share.carrier(b.hosts, host), share.number, held, count, ready));
      const Place got = b.scratch(count);
      const int source = share.carrier(b.hosts, source_of(level, inside.host()));
      ready.push_back(b.receive(source, share.number, got, count));
      // The output may be the input, which the first sends read.
      const bool root = &level == &path.back();
      if (root) ready.insert(ready.end(), sent.begin(), sent.end());
      const Place sum = root ? output(share.part.begin) : got;
      ready = {add_sides(b, level, held, got, sum, count, ready)};
      held = sum;
    }
    final.push_back(ready[0]);
  }
  inside.spread(final);
  return b.take();
}

std::string all_reduce_tree_doubling_unfit(const Problem& p) {
  if (p.coded) return "passes on whole sums of several hosts, which would be encoded every time";
  return all_reduce_tree_halving_unfit(p);
}

std::string all_reduce_tree_halving_unfit(const Problem& p) {
  if (p.coded && !p.coded_sums)
    return "passes on sums of several hosts, which would be encoded again and again";
  if (p.coded && p.order == SumOrder::kAuto && p.ranks() <= kMostRanksWithoutTree)
    return "so few ranks reach each other in one round, and each value is encoded less often";
  if (p.host.hosts().count() == 1) return "all ranks are on one host";
  if (!p.exact && sum_order(p) != SumOrder::kTree)
    return "adds hosts in a tree, but so few are added from left to right";
  return "";
}

Cost all_reduce_tree_halving_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double count = static_cast<double>(p.count), part = count / hosts.largest();
  const double left = std::exp2(-hosts.tree[0].depth);
  Cost cost = inside_cost(p);
  for (int h = 0; h < hosts.count(); ++h) {
    const std::vector<double> ranges = ranges_of(path_of(hosts, h));
    cost.wire_messages =
        std::max(cost.wire_messages, 2 * std::accumulate(ranges.begin(), ranges.end(), 0.0));
  }
  cost.wire_messages *= carriers(p, share_align(p, false));
  cost.wire_rounds = 2.0 * hosts.tree[0].depth;
  cost.wire_elements = 2 * (1 - left) * count;
  cost.summed_elements += 2 * (1 - left) * part;
  return cost;
}

Cost all_reduce_tree_doubling_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double count = static_cast<double>(p.count), depth = hosts.tree[0].depth;
  double sent = depth;  // each host receives as often as it is deep
  for (int h = 0; h < hosts.count(); ++h) {
    double here = 0;
    for (const Level& level : path_of(hosts, h))
      here += static_cast<double>(targets_of(level, h).size());
    sent = std::max(sent, here);
  }
  Cost cost = inside_cost(p);
  cost.wire_rounds = depth;
  cost.wire_messages = carriers(p, share_align(p, true)) * sent;
  cost.wire_elements = sent * count;
  cost.summed_elements += 2 * depth * count / carriers(p, share_align(p, true));
  return cost;
}

}  // namespace stretto::comm
