#include "stretto/comm/engine/group_table.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

const std::vector<int> kRanks = {0, 2};

Group insert(GroupTable* table, const GroupTable::Number& number) {
  auto group = std::make_unique<GroupState>();
  group->first_number = number.first;
  group->life = number.life;
  table->insert(number.id, std::move(group));
  return number.id;
}

Events::Arrival arrival_of(Group id) {
  return {.rank = 1, .key = {.group = id}, .fingerprint = 0, .mismatch = false};
}

TEST(GroupTable, AGroupIsOfItsOwnRanksOnce) {
  const JobHosts hosts = find_job_hosts({"a", "a", "b"}, {"", "", ""});
  const auto error_of = [&](std::vector<int> ranks) -> std::string {
    try {
      new_group("g", std::move(ranks), {.rank = 2, .size = 3}, hosts);
    } catch (const InvalidArgument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error_of({2, 3}), "group 'g': rank 3 does not exist in a job of 3 ranks");
  EXPECT_EQ(error_of({2, -1}), "group 'g': rank -1 does not exist in a job of 3 ranks");
  EXPECT_EQ(error_of({2, 0, 2}), "group 'g': rank 2 is listed twice");
  EXPECT_EQ(error_of({0, 1}),
            "group 'g': this rank, 2, is not a member; only members make a group");
  const auto group = new_group("g", {1, 2}, {.rank = 2, .size = 3}, hosts);
  EXPECT_EQ(group->name, "g");
  EXPECT_EQ(group->rank, 1);
  EXPECT_EQ(group->ranks, (std::vector<int>{1, 2}));
}

TEST(GroupTable, NothingWaitsInAnyGroupAfterTheJobHasFailed) {
  GroupTable table;
  OpenOperation open;
  for (const Group id : {1, 2}) {
    GroupState& group = table.insert(id, std::make_unique<GroupState>());
    group.waiting.push_back(&open);
    group.fusion.waiting.push_back(&open);
    group.active_bytes = 4;
    group.tuning = std::make_unique<StepTuning>();
    hold(*group.tuning, &open);
  }
  table.stop();
  for (const Group id : {1, 2}) {
    const GroupState& group = table.at(id);
    EXPECT_TRUE(group.waiting.empty() && group.fusion.waiting.empty());
    EXPECT_FALSE(holds(*group.tuning));
    EXPECT_EQ(group.active_bytes, 0);
  }
}

TEST(GroupTable, NumbersEachLifeOfAGroupAnew) {
  GroupTable table;
  const Group first = insert(&table, table.number("g", kRanks));
  EXPECT_THROW(table.number("g", kRanks), InvalidArgument);
  EXPECT_NE(table.number("g", {2, 0}).id, first);
  table.end_life(table.at(first));
  table.erase(first);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_THROW(table.at(first), InvalidArgument);
  const GroupTable::Number second = table.number("g", kRanks);
  EXPECT_NE(second.id, first);
  EXPECT_EQ(second.first, first);
  EXPECT_EQ(second.life, 1u);
}

TEST(GroupTable, HandsMessagesThatCameTooEarlyOverOnce) {
  GroupTable table;
  const Group id = table.number("g", kRanks).id;
  EXPECT_TRUE(table.keep_early(arrival_of(id)));
  EXPECT_TRUE(table.keep_early(arrival_of(id + 1)));
  EXPECT_TRUE(table.keep_early(arrival_of(id)));
  EXPECT_EQ(table.take_early(id).size(), 2u);
  EXPECT_TRUE(table.take_early(id).empty());
  EXPECT_EQ(table.take_early(id + 1).size(), 1u);
}

TEST(GroupTable, KeepsSoManyEarlyMessagesAndTakesMoreAgain) {
  GroupTable table;
  for (size_t i = 0; i < GroupTable::kMostEarly; ++i) ASSERT_TRUE(table.keep_early(arrival_of(1)));
  EXPECT_FALSE(table.keep_early(arrival_of(1)));
  EXPECT_FALSE(table.keep_early(arrival_of(2)));
  EXPECT_EQ(table.take_early(1).size(), GroupTable::kMostEarly);
  EXPECT_TRUE(table.keep_early(arrival_of(2)));
}

TEST(GroupTable, RemembersTheLastThatWereErased) {
  GroupTable table;
  for (Group id = 1; id <= GroupTable::kRemembered + 1; ++id) {
    table.insert(id, std::make_unique<GroupState>());
    EXPECT_FALSE(table.was_erased(id));
    table.erase(id);
  }
  EXPECT_FALSE(table.was_erased(1));
  EXPECT_TRUE(table.was_erased(2));
  EXPECT_TRUE(table.was_erased(GroupTable::kRemembered + 1));
}

TEST(GroupTable, KeepsTheMemoryOfARetiredGroupUntilItIsReleased) {
  GroupTable table;
  GroupState& group = table.insert(1, std::make_unique<GroupState>());
  group.name = "kept";
  table.retire(1, 2);
  table.erase(1);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(group.name, "kept");
  EXPECT_FALSE(table.release(1));
  EXPECT_TRUE(table.release(2));
  EXPECT_FALSE(table.release(2));
}

}  // namespace
}  // namespace stretto::comm
