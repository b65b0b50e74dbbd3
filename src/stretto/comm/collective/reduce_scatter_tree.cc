// Recursive halving of a reduce-scatter in the order of the tree of hosts (levels.h): the way to
// the root of the tree_halving all-reduce, with cells such that what is left at the root is the
// block of the rank that holds it. After Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005.
//
// A cell at the root belongs to one host, in the order of the reversed bits of its place in the
// tree. So each rank first copies its input into the order of cells, where what it sends at once
// lies together. A host whose leaf is not as deep as others has several cells, and its blocks are
// divided between them. Share j of what crosses the wire has the blocks of the j-th rank of every
// host; that rank carries it, or one of a smaller host.
#include <algorithm>
#include <cmath>

#include "stretto/comm/collective/levels.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

// The cells at the root, and whose they are.
struct RootCells {
  explicit RootCells(const Hosts& hosts)
      : depth(hosts.tree[0].depth), count(int64_t{1} << depth), of_host(hosts.members.size()) {
    for (int64_t c = 0; c < count; ++c) {
      owner.push_back(holder(hosts, hosts.tree.data(), c, depth));
      number.push_back(of_host[owner.back()]++);
    }
  }

  // The cells at the root below one of 2^d at a node of depth d.
  Part below(int64_t cell, int d) const { return {cell << (depth - d), (cell + 1) << (depth - d)}; }

  int depth;
  int64_t count;
  std::vector<int> owner;    // host, by cell
  std::vector<int> number;   // among its owner's cells
  std::vector<int> of_host;  // how many
};

class ScatterHalving {
 public:
  ScatterHalving(const Problem& p, int64_t unit)
      : b_(p),
        hosts_(b_.hosts),
        blocks_(p, unit),
        cells_(hosts_),
        host_(hosts_.host[b_.me]),
        path_(path_of(hosts_, host_)) {}

  Schedule run() {
    pack();
    const int index = hosts_.index[b_.me], size = hosts_.size(host_);
    for (const int share : Builder::others(index, hosts_.largest()))
      if (share % size != index)
        b_.send(carrier(host_, share), share, packed_ + begin(share, 0), count(share, all()),
                copies(share, all()));
    for (int share = index; share < hosts_.largest(); share += size) {
      Held held{.cells = all(), .at = packed_ + begin(share, 0), .ready = copies(share, all())};
      if (size > 1) sum_in_host(share, &held);
      climb(share, 0, held);
    }
    return b_.take();
  }

 private:
  // A partial sum of the hosts below a level.
  struct Held {
    Part cells;  // at the root
    int64_t cell = 0;
    Place at = {};
    // The step that writes it; at the leaf of a rank that is alone, that of each cell.
    Steps ready = {};
  };

  Part all() const { return {0, cells_.count}; }
  int carrier(int host, int share) const { return hosts_.members[host][share % hosts_.size(host)]; }

  // What a cell has of its owner's block, from the block's beginning.
  Part part_of_block(int share, int64_t cell) const {
    const int owner = cells_.owner[cell];
    if (share >= hosts_.size(owner)) return {};
    return cut(blocks_.part(hosts_.members[owner][share]), cells_.of_host[owner],
               cells_.number[cell], b_.problem.align);
  }

  int64_t begin(int share, int64_t cell) const { return begins_[share * cells_.count + cell]; }
  int64_t count(int share, Part cells) const {
    return begin(share, cells.end) - begin(share, cells.begin);
  }
  Steps copies(int share, Part cells) const {
    const auto from = copies_.begin() + share * cells_.count;
    return {from + cells.begin, from + cells.end};
  }

  void pack() {
    begins_ = {0};
    for (int share = 0; share < hosts_.largest(); ++share)
      for (int64_t c = 0; c < cells_.count; ++c)
        begins_.push_back(begins_.back() + part_of_block(share, c).count());
    packed_ = b_.scratch(begins_.back());
    for (int share = 0; share < hosts_.largest(); ++share)
      for (int64_t c = 0; c < cells_.count; ++c) {
        const Part part = part_of_block(share, c);
        if (part.empty()) {
          copies_.push_back(-1);
          continue;
        }
        const int rank = hosts_.members[cells_.owner[c]][share];
        copies_.push_back(b_.copy(input(blocks_.begin(rank) + part.begin),
                                  packed_ + begin(share, c), part.count()));
      }
  }

  // Tags between two ranks of a host are shares.
  void sum_in_host(int share, Held* held) {
    const int64_t elements = count(share, all());
    const int index = hosts_.index[b_.me], size = hosts_.size(host_);
    std::vector<Source> sources(static_cast<size_t>(size));
    sources[index].place = held->at;
    for (const int member : Builder::others(index, size)) {
      sources[member].place = b_.scratch(elements);
      held->ready.push_back(
          b_.receive(hosts_.members[host_][member], share, sources[member].place, elements));
    }
    for (size_t i = 1; i < sources.size(); ++i) sources[i].begins_host = false;
    held->ready = {b_.reduce(sources, held->at, elements, false, held->ready)};
  }

  // The steps after which these cells of `held` are there.
  Steps before(const Held& held, Part cells) const {
    if (held.ready.size() == 1) return held.ready;
    return {held.ready.begin() + (cells.begin - held.cells.begin),
            held.ready.begin() + (cells.end - held.cells.begin)};
  }

  void climb(int share, size_t at, const Held& held) {
    const Level& level = path_[at];
    const int depth = level.node->depth - 1, finer = level.finer();
    for (int64_t cell = held.cell << finer; cell < (held.cell + 1) << finer; ++cell) {
      const Part keep = cells_.below(2 * cell + level.side, depth + 1);
      const Part give = cells_.below(2 * cell + 1 - level.side, depth + 1);
      const auto place = [&](Part cells) {
        return held.at + (begin(share, cells.begin) - begin(share, held.cells.begin));
      };
      const int peer = carrier(holder(hosts_, level.sibling, cell, depth), share);
      const int tag = static_cast<int>(share * cells_.count + cell);
      b_.send(peer, tag, place(give), count(share, give), before(held, give));
      const int64_t kept = count(share, keep);
      const Place got = b_.scratch(kept);
      Steps ready = before(held, keep);
      ready.push_back(b_.receive(peer, tag, got, kept));
      const bool root = at + 1 == path_.size();
      const Place sum = root ? output(part_of_block(share, keep.begin).begin) : got;
      const int32_t summed = add_sides(b_, level, place(keep), got, sum, kept, ready);
      if (!root && kept > 0)
        climb(share, at + 1,
              {.cells = keep, .cell = 2 * cell + level.side, .at = sum, .ready = {summed}});
    }
  }

  Builder b_;
  const Hosts& hosts_;
  const Blocks blocks_;
  const RootCells cells_;
  const int host_;
  const std::vector<Level> path_;
  std::vector<int64_t> begins_;  // of share after share and cell after cell, packed
  Place packed_;
  Steps copies_;  // of each of them
};

// The blocks of one size that each host receives, in time of m log m.
class ReceivedBlocks {
 public:
  explicit ReceivedBlocks(const Hosts& hosts)
      : hosts_(hosts), cells_(hosts), received_(hosts.members.size()) {
    for (const int owner : cells_.owner)
      before_.push_back(before_.back() +
                        static_cast<double>(hosts.size(owner)) / cells_.of_host[owner]);
    add(hosts.tree[0]);
  }

  double most() const { return *std::max_element(received_.begin(), received_.end()); }

 private:
  // The host that holds each cell at the node, which has received the other side's sum of it.
  std::vector<int> add(const TreeNode& node) {
    if (node.leaf()) return {node.begin};
    std::vector<int> of_cell(size_t{1} << node.depth);
    for (const int side : {0, 1}) {
      const TreeNode& child = hosts_.tree[side == 0 ? node.left : node.right];
      const std::vector<int> below = add(child);
      const int finer = node.depth - 1 - child.depth;
      for (size_t cell = 0; cell < of_cell.size() / 2; ++cell)
        of_cell[2 * cell + side] = below[cell >> finer];
    }
    for (size_t cell = 0; cell < of_cell.size(); ++cell) {
      const Part part = cells_.below(static_cast<int64_t>(cell), node.depth);
      received_[of_cell[cell]] += before_[part.end] - before_[part.begin];
    }
    return of_cell;
  }

  const Hosts& hosts_;
  const RootCells cells_;
  std::vector<double> before_ = {0};  // blocks below each cell at the root
  std::vector<double> received_;
};

constexpr int kMostSpareDepth = 2;

}  // namespace

Schedule reduce_scatter_tree_halving(const Problem& p, int64_t unit) {
  return ScatterHalving(p, unit).run();
}

std::string reduce_scatter_tree_halving_unfit(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  if (hosts.count() == 1) return "all ranks are on one host";
  if (sum_order(p) != SumOrder::kTree)
    return "adds hosts in a tree, but so few are added from left to right";
  if (p.order == SumOrder::kAuto && p.ranks() <= kMostRanksWithoutTree)
    return "so few ranks reach each other in one round";
  if (hosts.tree[0].depth > std::ceil(std::log2(hosts.count())) + kMostSpareDepth)
    return "racks differ so much in size that some hosts would send many messages";
  return "";
}

Cost reduce_scatter_tree_halving_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double all = static_cast<double>(total_count(p)), k = hosts.largest();
  const double block = all / p.ranks();
  const double received = ReceivedBlocks(hosts).most();
  const double smallest = hosts.sizes.front();
  double messages = 0;
  for (int h = 0; h < hosts.count(); ++h) {
    double here = 0;
    for (const double ranges : ranges_of(path_of(hosts, h))) here += ranges;
    messages = std::max(messages, here);
  }
  return {.wire_rounds = static_cast<double>(hosts.tree[0].depth),
          .local_rounds = k > 1 ? 1.0 : 0.0,
          .wire_messages = k * messages,
          // All blocks but its own leave a host.
          .wire_elements = std::max(received, p.ranks() - smallest) * block,
          .local_messages = k - 1,
          .local_elements = all + (k - 1) / k * all,  // the copy of the input, too
          .summed_elements = (k > 1 ? all : 0) + 2 * received * block / k};
}

}  // namespace stretto::comm
