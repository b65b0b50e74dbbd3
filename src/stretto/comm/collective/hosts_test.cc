#include "stretto/comm/collective/hosts.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto::comm {
namespace {

// "((0 1) 2)": the order in which hosts are added.
std::string text(const Hosts& hosts, int node = 0) {
  const TreeNode& n = hosts.tree[node];
  if (n.leaf()) return std::to_string(n.begin);
  return "(" + text(hosts, n.left) + " " + text(hosts, n.right) + ")";
}

std::vector<int> alone(int n) {
  std::vector<int> labels;
  for (int r = 0; r < n; ++r) labels.push_back(r);
  return labels;
}

TEST(Hosts, HaveTheRanksInOrder) {
  const Hosts hosts = find_hosts(std::vector<int>{7, 3, 7, 9, 3, 3});
  EXPECT_EQ(hosts.members, (std::vector<std::vector<int>>{{0, 2}, {1, 4, 5}, {3}}));
  EXPECT_EQ(hosts.host, (std::vector<int>{0, 1, 0, 2, 1, 1}));
  EXPECT_EQ(hosts.index, (std::vector<int>{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(hosts.order, (std::vector<int>{0, 2, 1, 4, 5, 3}));
  EXPECT_EQ(hosts.position, (std::vector<int>{0, 2, 1, 5, 3, 4}));
  EXPECT_EQ(hosts.sizes, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(hosts.racks(), 1);
  EXPECT_EQ(find_hosts({}).count(), 0);
}

TEST(Hosts, TheTreeHalvesThem) {
  EXPECT_EQ(text(find_hosts(alone(1))), "0");
  EXPECT_EQ(text(find_hosts(alone(4))), "((0 1) (2 3))");
  EXPECT_EQ(text(find_hosts(alone(5))), "(((0 1) 2) (3 4))");
  EXPECT_EQ(find_hosts(alone(64)).tree[0].depth, 6);
  EXPECT_EQ(find_hosts(alone(65)).tree[0].depth, 7);
}

TEST(Hosts, OfARackAreNeighbours) {
  // Hosts 5, 6 and 8 are in rack 1, host 7 in rack 0, and a rank's own rack label does not move its
  // host.
  const std::vector<int> labels = {5, 7, 6, 8, 5}, racks = {1, 0, 1, 1, 0};
  const Hosts hosts = find_hosts(labels, racks);
  EXPECT_EQ(hosts.members, (std::vector<std::vector<int>>{{0, 4}, {2}, {3}, {1}}));
  EXPECT_EQ(hosts.rack, (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(hosts.racks(), 2);
  EXPECT_EQ(text(hosts), "(((0 1) 2) 3)");
  // Three racks: two are added before the third.
  EXPECT_EQ(text(find_hosts(alone(6), std::vector<int>{0, 0, 1, 1, 2, 2})),
            "(((0 1) (2 3)) (4 5))");
}

}  // namespace
}  // namespace stretto::comm
