#include "stretto/comm/collective/levels.h"

#include <algorithm>
#include <utility>

namespace stretto::comm {
namespace {

// What a partial sum of the hosts below `node` is to a reduction: of one host of one rank, it is
// the rank's input.
Source partial(const Hosts& hosts, const TreeNode* node, Place place) {
  return {.place = place, .host_sum = !node->leaf() || hosts.size(node->begin) > 1};
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
  Source sources[] = {partial(b.hosts, level.mine, held), partial(b.hosts, level.sibling, got)};
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
