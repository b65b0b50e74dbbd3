#include "stretto/comm/collective/levels.h"

#include <algorithm>
#include <utility>

namespace stretto::comm {
namespace {

// What a partial sum of the hosts below `node` is to a reduction: of one host of one rank, it is
// the rank's input. Averages through a codec are halved at every node but the root, where they are
// doubled as often: what is encoded is then as large as one host's sum, which a sum of many hosts
// is not.
Source partial(const Builder& b, const Level& level, const TreeNode* node, Place place) {
  const bool root = level.node == b.hosts.tree.data();
  const int exponent = root ? node->depth : node->depth - level.node->depth;
  return {.place = place,
          .host_sum = !node->leaf() || b.hosts.size(node->begin) > 1,
          .exponent = static_cast<int8_t>(b.problem.coded ? exponent : 0)};
}

}  // namespace

std::vector<Level> path_of(const Hosts& hosts, int host) {
  std::vector<Level> path;
  const TreeNode* at = hosts.tree.data();
  while (!at->leaf()) {
    const TreeNode *left = &hosts.tree[at->left], *right = &hosts.tree[at->right];
    const int side = host < left->end ? 0 : 1;
    path.push_back({at, side ? right : left, side ? left : right, side});
    at = side ? right : left;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

int holder(const Hosts& hosts, const TreeNode* node, int64_t cell, int depth) {
  for (;;) {
    cell >>= depth - node->depth;
    if (node->leaf()) return node->begin;
    depth = node->depth - 1;
    node = &hosts.tree[(cell & 1) == 0 ? node->left : node->right];
    cell >>= 1;
  }
}

int32_t add_sides(Builder& b, const Level& level, Place held, Place got, Place to, int64_t count,
                  Waits waits) {
  Source sources[] = {partial(b, level, level.mine, held), partial(b, level, level.sibling, got)};
  if (level.side == 1) std::swap(sources[0], sources[1]);
  return b.reduce(sources, to, count, level.node == b.hosts.tree.data(), waits);
}

std::vector<double> ranges_of(const std::vector<Level>& path) {
  std::vector<double> ranges;
  for (const Level& level : path)
    ranges.push_back((ranges.empty() ? 1 : ranges.back()) *
                     static_cast<double>(1 << level.finer()));
  return ranges;
}

}  // namespace stretto::comm
