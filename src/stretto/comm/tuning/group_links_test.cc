#include "stretto/comm/tuning/group_links.h"

#include <gtest/gtest.h>

namespace stretto::comm {
namespace {

constexpr int64_t kChunk = 256 << 10;

TEST(GroupLinks, AnAllReduceTakesWhatItsAlgorithmDoes) {
  // Two hosts: every byte crosses the card once each way, in one or two rounds.
  const LinkCosts known = {1e-9, 20e-6, 0, 0};
  const GroupLinks links = group_links(Placement({0, 1}), known, kChunk);
  EXPECT_TRUE(links.measured);
  EXPECT_EQ(links.model.wire_byte_s, 1e-9);
  EXPECT_EQ(links.model.local_byte_s, LinkModel{}.local_byte_s);
  EXPECT_EQ(links.coded_share, 1);
  // Sums and messages add up to a fifth; the least squares are of two points, so alpha also has
  // what the short one has in messages.
  EXPECT_GT(links.all_reduce.beta_s_per_byte, 1e-9);
  EXPECT_LT(links.all_reduce.beta_s_per_byte, 1.2e-9);
  EXPECT_GT(links.all_reduce.alpha_s, 15e-6);
  EXPECT_LT(links.all_reduce.alpha_s, 60e-6);
}

TEST(GroupLinks, AreMeasuredWhereTheCostsThatCountAreKnown) {
  const Placement apart({0, 1, 2}), together({0, 0, 0});
  const LinkCosts wire = {1e-9, 20e-6, 0, 0}, local = {0, 0, 1e-10, 1e-6}, half = {1e-9, 0, 0, 0};
  EXPECT_TRUE(group_links(apart, wire, kChunk).measured);
  EXPECT_FALSE(group_links(apart, local, kChunk).measured);
  EXPECT_FALSE(group_links(apart, half, kChunk).measured);
  EXPECT_FALSE(group_links(together, wire, kChunk).measured);
  EXPECT_TRUE(group_links(together, local, kChunk).measured);
  EXPECT_FALSE(group_links(Placement({0}), wire, kChunk).measured) << "a rank of its own";
}

TEST(GroupLinks, TheShareIsThatOfTheBusiestCard) {
  EXPECT_NEAR(group_links(Placement({0, 1, 2, 3}), {}, kChunk).coded_share, 1.5, 1e-6);
  EXPECT_NEAR(group_links(Placement({0, 0, 1, 1}), {}, kChunk).coded_share, 1, 1e-6);
  EXPECT_EQ(group_links(Placement({0, 0}), {}, kChunk).coded_share, 0);
  EXPECT_EQ(group_links(Placement({0, 1, 2}), {1e-12, 1e-3, 0, 0}, kChunk).coded_share,
            group_links(Placement({0, 1, 2}), {}, kChunk).coded_share)
      << "the same on ranks that know different costs";
}

}  // namespace
}  // namespace stretto::comm
