#include "stretto/comm/collective/sum_order.h"

#include <map>
#include <utility>

namespace stretto::comm {
namespace {

using Sources = std::vector<Source>;

class TreeSum {
 public:
  TreeSum(Builder& b, const std::vector<Sources>& by_host, int64_t count, Waits waits)
      : b_(b), by_host_(by_host), count_(count), waits_(waits) {}

  int32_t run(int node, Place to) {
    const TreeNode& n = b_.hosts.tree[node];
    return add(n.leaf() ? by_host_[n.begin] : both(n), to, node == 0);
  }

 private:
  // One sum after another: they run on one rank, so nothing is lost, and partial sums of one depth
  // can share memory.
  int32_t add(const Sources& sources, Place to, bool last) {
    const int32_t step =
        b_.reduce(sources, to, count_, last, before_ < 0 ? waits_ : Waits(&before_, 1));
    return before_ = step;
  }

  Sources both(const TreeNode& n) {
    Sources sources = value(n.left, n.depth, 0);
    const Sources right = value(n.right, n.depth, 1);
    sources.insert(sources.end(), right.begin(), right.end());
    return sources;
  }

  Sources value(int node, int depth_above, int side) {
    const TreeNode& n = b_.hosts.tree[node];
    if (n.leaf()) return by_host_[n.begin];
    const Sources sources = both(n);
    const auto [found, fresh] = partial_.try_emplace({depth_above, side});
    if (fresh) found->second = b_.scratch(count_);
    const Place place = found->second;
    add(sources, place, false);
    return {{.place = place, .begins_host = true, .host_sum = true}};
  }

  Builder& b_;
  const std::vector<Sources>& by_host_;
  const int64_t count_;
  const Waits waits_;
  int32_t before_ = -1;
  std::map<std::pair<int, int>, Place> partial_;  // by depth of the sum that takes it, and side
};

}  // namespace

int32_t sum_hosts(Builder& b, const std::vector<Sources>& by_host, Place to, int64_t count,
                  Waits waits) {
  if (count == 0) return -1;
  // Codecs add from left to right.
  if (!b.problem.coded && sum_order(b.problem) == SumOrder::kTree)
    return TreeSum(b, by_host, count, waits).run(0, to);
  Sources line;
  for (const Sources& host : by_host) line.insert(line.end(), host.begin(), host.end());
  return b.reduce(line, to, count, true, waits);
}

int32_t sum_ranks(Builder& b, const std::vector<Place>& of_rank, Place to, int64_t count,
                  Waits waits) {
  std::vector<Sources> by_host;
  for (const auto& members : b.hosts.members) {
    Sources& sources = by_host.emplace_back();
    for (const int rank : members)
      sources.push_back({.place = of_rank[rank], .begins_host = rank == members[0]});
  }
  return sum_hosts(b, by_host, to, count, waits);
}

}  // namespace stretto::comm
