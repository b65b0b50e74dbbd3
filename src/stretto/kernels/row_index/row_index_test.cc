#include <limits>
#include <vector>

#include "stretto/kernels/row_check.h"
#include "stretto/kernels/row_index/problem.h"

namespace stretto::kernels {
namespace {

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();

using List = std::vector<int32_t>;

// All outputs.
std::vector<List> indexed(const RowIndexProblem& p, const std::vector<uint8_t>& mask) {
  Workbench bench(kRowIndex, &p, 1, shared_team(p.target.threads));
  bench.unalign_inputs();
  std::ranges::copy(mask, reinterpret_cast<uint8_t*>(bench.input(0).data()));
  bench.run(kRowIndex.reference);
  std::vector<List> lists;
  for (size_t i = 0; i < bench.signature().outputs.size(); ++i) {
    const auto* from = reinterpret_cast<const int32_t*>(bench.output(static_cast<int>(i)).data());
    lists.emplace_back(from, from + element_count(bench.signature().outputs[i].shape));
  }
  return lists;
}

TEST(RowIndex, RowsPlacesAndStarts) {
  const RowIndexProblem p{.batch = 4, .length = 3, .rows = 8};
  const auto lists = indexed(p, {1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1});
  EXPECT_EQ(lists[0], (List{0, 1, 7, 8, 9, 11, kNowhere, kNowhere}));
  EXPECT_EQ(lists[1],
            (List{0, 1, kNowhere, kNowhere, kNowhere, kNowhere, kNowhere, 2, 3, 4, kNowhere, 5}));
  EXPECT_EQ(lists[2], (List{0, 2, 2, 4, 6}));
  EXPECT_EQ(lists[3], (List{0, 1, 1, 2, 0, 2, kNowhere, kNowhere}));
  EXPECT_EQ(lists[4], (List{0, 0, 2, 2, 3, 3, kNowhere, kNowhere}));
}

TEST(RowIndex, WhatFindsNoRoomIsLeftOut) {
  const RowIndexProblem p{.batch = 2, .length = 2, .rows = 3};
  const auto lists = indexed(p, {1, 1, 1, 1});
  EXPECT_EQ(lists[0], (List{0, 1, 2}));
  EXPECT_EQ(lists[1], (List{0, 1, 2, kNowhere}));
  EXPECT_EQ(lists[2], (List{0, 2, 3}));
}

TEST(RowIndex, UnitsAndThreads) {
  const RowIndexProblem p{.target = {.threads = 3}, .batch = 3, .length = 17, .rows = 20};
  Workbench bench(kRowIndex, &p, 1, shared_team(3));
  bench.unalign_inputs();
  EXPECT_TRUE(bench.same_in_units(kRowIndex.reference, 4));
}

}  // namespace
}  // namespace stretto::kernels
