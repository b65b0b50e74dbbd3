#include "stretto/comm/engine/operation_table.h"

#include <gtest/gtest.h>

#include "stretto/comm/engine/named_residuals.h"

namespace stretto::comm {
namespace {

OperationTable::Shared add(OperationTable* table, bool internal = false) {
  auto open = std::make_shared<OpenOperation>();
  table->add(open, internal);
  return open;
}

TEST(OperationTable, CountsWhatIsUnderWay) {
  OperationTable table;
  EXPECT_FALSE(table.callers_wait());
  const auto own = add(&table, true);
  EXPECT_FALSE(table.callers_wait());
  const auto first = add(&table), second = add(&table);
  EXPECT_TRUE(table.callers_wait());
  EXPECT_EQ(table.unfinished(), 3);
  table.end(first.get(), false);
  EXPECT_TRUE(first->done);
  table.withdraw(*second, false);
  EXPECT_FALSE(table.callers_wait());
  EXPECT_EQ(table.find(second->handle), nullptr);
  EXPECT_EQ(table.find(first->handle), first) << "it is known until it is released";
  table.release(first->handle);
  EXPECT_EQ(table.find(first->handle), nullptr);
  table.end(own.get(), true);
  EXPECT_EQ(table.unfinished(), 0);
  EXPECT_EQ(table.unfinished_internal(), 0);
}

TEST(OperationTable, ListsWhatIsUnderWayInTheOrderOfSubmission) {
  OperationTable table;
  std::vector<OperationTable::Shared> all;
  for (int i = 0; i < 100; ++i) all.push_back(add(&table));
  table.end(all[40].get(), false);
  all.erase(all.begin() + 40);
  EXPECT_EQ(table.under_way(), all);
}

TEST(OperationTable, FindsTheOneThatTakesTooLong) {
  OperationTable table;
  double next = 100;
  const auto own = add(&table), usual = add(&table), done = add(&table);
  own->submitted_s = usual->submitted_s = 10;
  own->operation.timeout_s = 20;
  table.end(done.get(), false);  // submitted at 0
  EXPECT_EQ(table.overdue(29, 30, &next), nullptr);
  EXPECT_EQ(next, 30);
  EXPECT_EQ(table.overdue(30, 30, &next), own.get());
  table.end(own.get(), false);
  next = 100;
  EXPECT_EQ(table.overdue(39, 30, &next), nullptr);
  EXPECT_EQ(next, 40);
  EXPECT_EQ(table.overdue(40, 30, &next), usual.get());
  next = 1000;
  EXPECT_EQ(table.overdue(999, 0, &next), nullptr) << "no limit";
  EXPECT_EQ(next, 1000);
}

TEST(OperationTable, CountsWhatCallersHaveSubmittedPieceByPiece) {
  OperationTable table;
  const auto single = add(&table), of_pieces = add(&table), unseen = add(&table);
  of_pieces->pieces.resize(5);
  unseen->operation.unseen = true;
  const auto own = add(&table, true);
  for (const auto& open : {single, of_pieces, unseen}) table.end(open.get(), false);
  table.end(own.get(), true);
  EXPECT_EQ(table.completed(), 6);
  EXPECT_EQ(table.joined(), 5);
  table.count_fused(*single);
  table.count_fused(*of_pieces);  // its pieces are counted
  EXPECT_EQ(table.joined(), 6);
}

TEST(NamedResiduals, BelongToGroupNameAndCount) {
  NamedResiduals residuals;
  float* mine = residuals.of(1, "a", 4);
  EXPECT_EQ(std::vector<float>(mine, mine + 4), std::vector<float>(4));
  mine[0] = 5;
  residuals.of(1, "b", 4)[0] = 6;
  residuals.of(2, "a", 4)[0] = 7;
  EXPECT_EQ(residuals.of(1, "a", 4), mine);
  EXPECT_NE(residuals.of(1, "a", 3), mine);
  residuals.drop(1);
  EXPECT_EQ(residuals.of(1, "a", 4)[0], 0);
  EXPECT_EQ(residuals.of(1, "b", 4)[0], 0);
  EXPECT_EQ(residuals.of(2, "a", 4)[0], 7);
}

}  // namespace
}  // namespace stretto::comm
