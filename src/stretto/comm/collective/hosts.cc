#include "stretto/comm/collective/hosts.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace stretto::comm {
namespace {

// Halves the racks until there is one, then the hosts of the rack. `first` is the lowest host of
// every rack, and the number of hosts at the end.
int add_node(std::vector<TreeNode>* tree, const std::vector<int>& first, int begin, int end) {
  const int node = static_cast<int>(tree->size());
  tree->push_back({.begin = begin, .end = end});
  if (end - begin == 1) return node;
  const auto rack = [&](int host) {
    return std::upper_bound(first.begin(), first.end(), host) - first.begin() - 1;
  };
  const auto from = rack(begin), to = rack(end - 1) + 1;
  const int middle = to - from > 1 ? first[static_cast<size_t>(from + (to - from + 1) / 2)]
                                   : begin + (end - begin + 1) / 2;
  const int left = add_node(tree, first, begin, middle);
  const int right = add_node(tree, first, middle, end);
  TreeNode& made = (*tree)[static_cast<size_t>(node)];
  made.left = left;
  made.right = right;
  made.depth = 1 + std::max((*tree)[static_cast<size_t>(left)].depth,
                            (*tree)[static_cast<size_t>(right)].depth);
  return node;
}

}  // namespace

Hosts find_hosts(std::span<const int> labels, std::span<const int> racks) {
  std::vector<std::vector<int>> found;  // in order of lowest rank
  std::vector<int> rack_of;             // of each of them
  std::unordered_map<int, int> seen, seen_racks;
  for (int rank = 0; rank < static_cast<int>(labels.size()); ++rank) {
    const auto [at, fresh] = seen.try_emplace(labels[rank], static_cast<int>(found.size()));
    if (fresh) {
      const int label = racks.empty() ? 0 : racks[rank];
      rack_of.push_back(
          seen_racks.try_emplace(label, static_cast<int>(seen_racks.size())).first->second);
      found.emplace_back();
    }
    found[at->second].push_back(rank);
  }
  std::vector<int> by_rack(found.size());
  for (size_t h = 0; h < found.size(); ++h) by_rack[h] = static_cast<int>(h);
  std::stable_sort(by_rack.begin(), by_rack.end(),
                   [&](int a, int b) { return rack_of[a] < rack_of[b]; });

  Hosts hosts;
  for (auto* of_rank : {&hosts.host, &hosts.index, &hosts.position}) of_rank->resize(labels.size());
  std::vector<int> first;
  std::set<int> sizes;
  for (const int h : by_rack) {
    if (hosts.rack.empty() || hosts.rack.back() != rack_of[h]) first.push_back(hosts.count());
    for (size_t i = 0; i < found[h].size(); ++i) {
      const int rank = found[h][i];
      hosts.host[rank] = hosts.count();
      hosts.index[rank] = static_cast<int>(i);
      hosts.position[rank] = static_cast<int>(hosts.order.size());
      hosts.order.push_back(rank);
    }
    hosts.rack.push_back(rack_of[h]);
    sizes.insert(static_cast<int>(found[h].size()));
    hosts.members.push_back(std::move(found[h]));
  }
  hosts.sizes.assign(sizes.begin(), sizes.end());
  if (hosts.count() > 0) {
    first.push_back(hosts.count());
    add_node(&hosts.tree, first, 0, hosts.count());
  }
  return hosts;
}

}  // namespace stretto::comm
