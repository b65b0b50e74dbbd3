#include "stretto/comm/engine/order.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

constexpr uint64_t kMine = 11, kOther = 12;  // fingerprints

Events::Arrival arrival(int rank, uint64_t sequence, uint64_t fingerprint, uint32_t unit = 0) {
  return {.rank = rank,
          .key = {.group = 1, .sequence = sequence, .unit = unit},
          .fingerprint = fingerprint,
          .mismatch = false};
}

TEST(Order, PiecesAndSettingsAreComparedToo) {
  OpenOperation open;
  open.operation.count = 5;
  EXPECT_EQ(fingerprint(open), fingerprint(open.operation));
  std::set<uint64_t> all{fingerprint(open)};
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{2, 3}, {3, 2}, {5}}) {
    open.pieces.clear();
    for (const int64_t count : counts) open.pieces.push_back({.count = count});
    EXPECT_TRUE(all.insert(fingerprint(open)).second);
  }
  for (const uint64_t generation : {1, 2}) {
    open.settings = std::make_shared<Settings>(Settings{.generation = generation});
    EXPECT_TRUE(all.insert(fingerprint(open)).second);
  }
}

TEST(Order, AMessageIsComparedWithTheOperationOfItsNumber) {
  Order order;
  EXPECT_EQ(note_begun(order, 0, kMine, {.count = 3, .name = "w"}), std::nullopt);
  EXPECT_FALSE(contradicts(order, arrival(1, 0, kMine), 1));
  EXPECT_TRUE(contradicts(order, arrival(1, 0, kOther), 1));
  EXPECT_EQ(describe_past(order, 0), "all_reduce of 3 float32 (average), 'w'");
  EXPECT_EQ(describe_past(order, 1), "another operation");
  note_begun(order, 2, kMine, {.kind = Kind::kAllToAll});
  EXPECT_EQ(describe_past(order, 2),
            "all_to_all of float32, whose input splits must be the output splits of others");
}

TEST(Order, OneThatComesEarlyIsComparedWhenTheOperationBegins) {
  Order order;
  EXPECT_FALSE(contradicts(order, arrival(2, 0, kOther), 0));
  EXPECT_FALSE(contradicts(order, arrival(3, 1, kMine), 0));
  EXPECT_EQ(note_begun(order, 0, kMine, {}), 2);
  EXPECT_EQ(note_begun(order, 1, kMine, {}), std::nullopt);
  EXPECT_TRUE(order.early.empty());
}

TEST(Order, OnlyTheLastOperationsAreRemembered) {
  Order order;
  constexpr uint64_t kMany = 1000;
  for (uint64_t i = 0; i < kMany; ++i) note_begun(order, i, kMine, {});
  EXPECT_FALSE(contradicts(order, arrival(1, 0, kOther), kMany)) << "nothing is known of it";
  EXPECT_TRUE(contradicts(order, arrival(1, kMany - 1, kOther), kMany));
}

TEST(Order, FusedOperationsAreComparedByTheirFirstNumber) {
  Order order;
  EXPECT_FALSE(contradicts(order, arrival(2, 4, kOther, kJoined), 9)) << "not fused here yet";
  EXPECT_EQ(note_joined(order, 4, kMine), 2);
  EXPECT_FALSE(contradicts(order, arrival(1, 4, kMine, kJoined), 9));
  EXPECT_TRUE(contradicts(order, arrival(1, 4, kOther, kJoined), 9));
  EXPECT_FALSE(contradicts(order, arrival(1, 2, kOther, kJoined), 9)) << "fused long ago";
  EXPECT_TRUE(order.early_joined.empty());
}

}  // namespace
}  // namespace stretto::comm
