#include "stretto/comm/collective/pipelined_trees.h"

#include <algorithm>
#include <cmath>

#include "stretto/comm/collective/levels.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

// A message takes the time of so many elements of four bytes: 4 us at 1 Gbit/s are 125, 3 us at 10
// Gbit/s 940. What a pipeline of h hosts loses, h segments and a message for each segment, is least
// for segments of sqrt(count * this / h).
constexpr double kElementsOfMessage = 400;
constexpr double kLeastSegment = 256;

// So many bits of a segment's number choose the tree; nodes that are deeper use the same bits
// again. This limits the ranks that the root talks to, and costs a few percent of balance.
constexpr int kTreeBits = 6;

// Of what a rank contributes to a sum, before the sums of earlier segments.
constexpr size_t kSegmentsAhead = 12;

// Elements of a broadcast to few ranks: where processors are the limit, and not the network, the
// messages of a smaller one take longer than its bytes.
constexpr int64_t kLeastForFew = 1 << 18;

class TreesToAll {
 public:
  TreesToAll(const Problem& p, int64_t unit)
      : b_(p),
        trees_(p),
        unit_(unit),
        whole_(unit_of_tensor(p, unit)),
        host_(b_.hosts.host[b_.me]),
        path_(path_of(b_.hosts, host_)) {}

  Schedule run() {
    const auto& neighbours = b_.hosts.members[host_];
    if (host_ == b_.hosts.host[b_.problem.root]) {
      if (b_.me == b_.problem.root)
        send_all();
      else
        b_.receive(b_.problem.root, 0, output(whole_.begin), whole_.count());
      return b_.take();
    }
    const std::vector<Part> shares = trees_.shares(unit_);
    for (int share = 0; share < static_cast<int>(shares.size()); ++share) {
      const Part part = shares[share];
      const int carrier = trees_.carrier(host_, share);
      if (carrier != b_.me) {
        b_.receive(carrier, share, output(part.begin), part.count());
        continue;
      }
      Steps received;
      for (const Segment& segment : trees_.segments(unit_, share))
        received.push_back(pass_on(segment, share));
      for (const int i : Builder::others(b_.hosts.index[b_.me], b_.hosts.size(host_)))
        b_.send(neighbours[i], share, output(part.begin), part.count(), received);
    }
    return b_.take();
  }

 private:
  void send_all() {
    const std::vector<Part> shares = trees_.shares(unit_);
    for (int share = 0; share < static_cast<int>(shares.size()); ++share)
      for (const Segment& segment : trees_.segments(unit_, share)) {
        if (trees_.single())
          send_down(segment, share, path_.size(), -1);
        else
          send(trees_.holder(b_.hosts.tree[0], segment), segment, share, -1);
      }
    for (const int i : Builder::others(b_.hosts.index[b_.me], b_.hosts.size(host_)))
      b_.send(b_.hosts.members[host_][i], 0, input(whole_.begin), whole_.count());
    b_.copy(input(whole_.begin), output(whole_.begin), whole_.count());
  }

  // Receives a segment, and sends it to who gets it from this host.
  int32_t pass_on(const Segment& segment, int share) {
    size_t held = 0;
    while (held < path_.size() && trees_.holder(*path_[held].node, segment) == host_) ++held;
    const int from = held == path_.size()
                         ? b_.problem.root
                         : trees_.carrier(trees_.holder(*path_[held].node, segment), share);
    const int32_t received =
        b_.receive(from, segment.tag, output(segment.part.begin), segment.part.count());
    send_down(segment, share, held, received);
    return received;
  }

  // To the other side of each of the first `held` nodes above; that with the longest way first.
  void send_down(const Segment& segment, int share, size_t held, int32_t ready) {
    while (held-- > 0) {
      const int to = trees_.holder(*path_[held].sibling, segment);
      if (to != b_.hosts.host[b_.problem.root]) send(to, segment, share, ready);
    }
  }

  void send(int host, const Segment& segment, int share, int32_t ready) {
    const int64_t begin = segment.part.begin;
    b_.send(trees_.carrier(host, share), segment.tag,
            b_.me == b_.problem.root ? input(begin) : output(begin), segment.part.count(),
            {&ready, 1});
  }

  Builder b_;
  const PipelinedTrees trees_;
  const int64_t unit_;
  const Part whole_;
  const int host_;
  const std::vector<Level> path_;
};

class TreesToRoot {
 public:
  TreesToRoot(const Problem& p, int64_t unit)
      : b_(p),
        trees_(p),
        unit_(unit),
        host_(b_.hosts.host[b_.me]),
        path_(path_of(b_.hosts, host_)) {}

  Schedule run() {
    const std::vector<Part> shares = trees_.shares(unit_);
    for (int share = 0; share < static_cast<int>(shares.size()); ++share)
      if (const int carrier = trees_.carrier(host_, share); carrier != b_.me)
        b_.send(carrier, share, input(shares[share].begin), shares[share].count());
    for (int share = 0; share < static_cast<int>(shares.size()); ++share) {
      if (trees_.carrier(host_, share) != b_.me) continue;
      const auto [sum, summed] = sum_in_host(shares[share], share);
      for (const Segment& segment : trees_.segments(unit_, share))
        ends_.push_back(
            climb(segment, share, sum + (segment.part.begin - shares[share].begin), summed));
    }
    if (b_.me != b_.problem.root || trees_.single()) return b_.take();
    for (int share = 0; share < static_cast<int>(shares.size()); ++share)
      for (const Segment& segment : trees_.segments(unit_, share))
        b_.receive(trees_.carrier(trees_.holder(b_.hosts.tree[0], segment), share), segment.tag,
                   output(segment.part.begin), segment.part.count());
    return b_.take();
  }

 private:
  struct Sum {
    Place at;
    int32_t ready;
  };

  Sum sum_in_host(Part part, int share) {
    const int index = b_.hosts.index[b_.me], size = b_.hosts.size(host_);
    if (size == 1) return {input(part.begin), -1};
    std::vector<Source> sources(static_cast<size_t>(size));
    Steps received;
    for (const int member : Builder::others(index, size)) {
      sources[member].place = b_.scratch(part.count());
      received.push_back(
          b_.receive(b_.hosts.members[host_][member], share, sources[member].place, part.count()));
    }
    sources[index].place = input(part.begin);
    for (size_t i = 1; i < sources.size(); ++i) sources[i].begins_host = false;
    const Place sum = b_.scratch(part.count());
    return {sum, b_.reduce(sources, sum, part.count(), false, received)};
  }

  // Returns the last step that adds something to the segment here; -1: there is none.
  int32_t climb(const Segment& segment, int share, Place held, int32_t ready) {
    const int64_t count = segment.part.count();
    const int32_t contributed = ready;
    for (const Level& level : path_) {
      const int winner = trees_.holder(*level.node, segment);
      if (winner != host_) {
        const Steps before = {ready, ready == contributed ? gate() : -1};
        b_.send(trees_.carrier(winner, share), segment.tag, held, count, before);
        return ready == contributed ? -1 : ready;
      }
      const Place got = b_.scratch(count);
      const int from = trees_.carrier(trees_.holder(*level.sibling, segment), share);
      const Steps both = {b_.receive(from, segment.tag, got, count), ready};
      const bool ends = &level == &path_.back() && trees_.single();
      const Place sum = ends ? output(segment.part.begin) : got;
      ready = add_sides(b_, level, held, got, sum, count, both);
      held = sum;
    }
    if (!trees_.single()) b_.send(b_.problem.root, segment.tag, held, count, {&ready, 1});
    return ready;
  }

  // All that this rank contributes could be sent at once, but then sums, for which others wait,
  // would have to wait for it. So a contribution waits until a sum some segments before has ended.
  int32_t gate() const {
    for (size_t i = ends_.size(); i-- > 0;)
      if (ends_.size() - i >= kSegmentsAhead && ends_[i] >= 0) return ends_[i];
    return -1;
  }

  Builder b_;
  const PipelinedTrees trees_;
  const int64_t unit_;
  std::vector<int32_t> ends_;  // by segment that this rank carries
  const int host_;
  const std::vector<Level> path_;
};

// What every card carries of the whole operation towards the root, which is what it carries the
// other way in a broadcast. The segments of one tree take the same ways.
class TreeLoads {
 public:
  explicit TreeLoads(const Problem& p) : p_(p), trees_(p), loads_(p.host.hosts().members.size()) {
    std::vector<Load> of_tree(size_t{1} << kTreeBits);
    for (int64_t unit = 0; unit < unit_count(p); ++unit)
      for (int share = 0; share < static_cast<int>(trees_.shares(unit).size()); ++share)
        for (const Segment& segment : trees_.segments(unit, share)) {
          Load& load = of_tree[segment.number % of_tree.size()];
          load.elements += static_cast<double>(segment.part.count());
          ++load.messages;
        }
    for (size_t tree = 0; tree < of_tree.size(); ++tree) {
      if (of_tree[tree].messages == 0) continue;
      segment_.number = static_cast<unsigned>(tree);
      load_ = of_tree[tree];
      const int last = climb(p.host.hosts().tree[0]);
      if (!trees_.single()) move(last, p.host.hosts().host[p.root]);
    }
  }

  double elements() const {
    double most = 0;
    for (const InOut& load : loads_) most = std::max({most, load.in.elements, load.out.elements});
    return most;
  }
  double messages() const {
    double most = 0;
    for (const InOut& load : loads_) most = std::max({most, load.in.messages, load.out.messages});
    return most;
  }
  int64_t segment_elements() const { return trees_.segment_elements(); }
  bool single() const { return trees_.single(); }

 private:
  struct Load {
    double elements = 0, messages = 0;
  };
  struct InOut {
    Load in, out;
  };

  int climb(const TreeNode& node) {
    if (node.leaf()) return node.begin;
    const Hosts& hosts = p_.host.hosts();
    const int left = climb(hosts.tree[node.left]), right = climb(hosts.tree[node.right]);
    const bool to_left = trees_.left_holds(node, segment_);
    const int winner = to_left ? left : right, loser = to_left ? right : left;
    // The root of a broadcast has its own tensor already.
    if (p_.kind == Collective::kReduce || loser != hosts.host[p_.root]) move(loser, winner);
    return winner;
  }

  void move(int from, int to) {
    for (Load* load : {&loads_[from].out, &loads_[to].in}) {
      load->elements += load_.elements;
      load->messages += load_.messages;
    }
  }

  const Problem& p_;
  const PipelinedTrees trees_;
  std::vector<InOut> loads_;
  Segment segment_;
  Load load_;
};

Cost trees_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const TreeLoads loads(p);
  const double depth = hosts.tree[0].depth;
  return {
      .wire_rounds = depth + (loads.single() ? 0 : 1),
      .wire_messages = loads.messages() / static_cast<double>(std::max<int64_t>(1, unit_count(p))),
      .wire_elements = loads.elements(),
      .wire_fill_elements =
          loads.single() ? 0 : depth * static_cast<double>(loads.segment_elements())};
}

}  // namespace

PipelinedTrees::PipelinedTrees(const Problem& p)
    : p_(p), hosts_(p.host.hosts()), root_host_(hosts_.host[p.root]) {
  const double hops = hosts_.tree[0].depth + 1;
  segment_ = static_cast<int64_t>(
      std::max(kLeastSegment, std::sqrt(static_cast<double>(p.count) * kElementsOfMessage / hops)));
  if (unit_count(p) == 0) return;
  int64_t count = 0;
  for (const Part share : shares(0)) count += segments_of(share);
  per_unit_ = count;
  single_ = count == 1 && unit_count(p) == 1;
}

std::vector<Part> PipelinedTrees::shares(int64_t unit) const {
  const Part whole = unit_of_tensor(p_, unit);
  const auto count =
      static_cast<int>(std::clamp<int64_t>(whole.count() / segment_, 1, hosts_.largest()));
  std::vector<Part> shares;
  for (int i = 0; i < count; ++i) shares.push_back(cut(whole, count, i, 1));
  return shares;
}

std::vector<Segment> PipelinedTrees::segments(int64_t unit, int share) const {
  const std::vector<Part> all = shares(unit);
  int tag = 0;
  for (int before = 0; before < share; ++before) tag += static_cast<int>(segments_of(all[before]));
  const auto count = static_cast<int>(segments_of(all[share]));
  std::vector<Segment> segments;
  for (int i = 0; i < count; ++i, ++tag)
    segments.push_back({.part = cut(all[share], count, i, 1),
                        .tag = tag,
                        .number = static_cast<unsigned>(unit * per_unit_ + tag)});
  return segments;
}

int PipelinedTrees::holder(const TreeNode& node, const Segment& segment) const {
  const TreeNode* at = &node;
  while (!at->leaf()) at = &hosts_.tree[left_holds(*at, segment) ? at->left : at->right];
  return at->begin;
}

bool PipelinedTrees::left_holds(const TreeNode& node, const Segment& segment) const {
  if (above_root(node)) return above_root(hosts_.tree[node.left]) == single_;
  return (segment.number >> ((node.depth - 1) % kTreeBits) & 1U) == 0;
}

int PipelinedTrees::carrier(int host, int share) const {
  if (host == root_host_ && (single_ || p_.kind == Collective::kBroadcast)) return p_.root;
  return hosts_.members[host][share % hosts_.size(host)];
}

Schedule broadcast_pipelined_trees(const Problem& p, int64_t unit) {
  return TreesToAll(p, unit).run();
}

Schedule reduce_pipelined_trees(const Problem& p, int64_t unit) {
  return TreesToRoot(p, unit).run();
}

std::string broadcast_pipelined_trees_unfit(const Problem& p) {
  if (p.host.hosts().count() == 1) return "all ranks are on one host";
  if (p.order == SumOrder::kAuto && p.ranks() <= kMostRanksWithoutTree && p.count < kLeastForFew)
    return "so few ranks get so small a tensor from the root in a round or two";
  return "";
}

std::string reduce_pipelined_trees_unfit(const Problem& p) {
  if (p.host.hosts().count() == 1) return "all ranks are on one host";
  if (!p.exact && sum_order(p) != SumOrder::kTree)
    return "adds hosts in a tree, but so few are added from left to right";
  if (p.order == SumOrder::kAuto && p.ranks() <= kMostRanksWithoutTree)
    return "so few ranks reach each other in one round";
  return "";
}

Cost broadcast_pipelined_trees_cost(const Problem& p) {
  const double near = p.host.hosts().largest(), count = static_cast<double>(p.count);
  Cost cost = trees_cost(p);
  cost.local_rounds = near > 1 ? 1.0 : 0.0;
  cost.local_messages = near - 1;
  cost.local_elements = near > 1 ? count : 0;
  return cost;
}

Cost reduce_pipelined_trees_cost(const Problem& p) {
  const double near = p.host.hosts().largest(), count = static_cast<double>(p.count);
  Cost cost = trees_cost(p);
  cost.local_rounds = near > 1 ? 1.0 : 0.0;
  cost.local_messages = near - 1;
  cost.local_elements = (near - 1) / near * count;
  cost.summed_elements = (near > 1 ? count : 0) + 2 * cost.wire_elements / near;
  return cost;
}

}  // namespace stretto::comm
