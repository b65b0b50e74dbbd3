#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// Indices are -8 to 7: half of them are outside, on both sides.
TEST(GatherOneHot, RowsOfATable) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 50]
    constant four: float32[] = {4}
    constant column: int64[3] = {2, 50, 1}
    constant iota: int32[1, 1, 5] = {0, 1, 2, 3, 4}
    constant table: float32[5, 3] = random(1)
    scaled = Mul(x, four)
    index = Cast(scaled) {to = "int32"}
    at = Reshape(index, column)
    same = Equal(iota, at)
    hot = Cast(same) {to = "float32"}
    y = MatMul(hot, table)
    output y)",
                         {&kGatherOneHot}, 0);
  EXPECT_EQ(r.times("gather-one-hot"), 1);
  EXPECT_EQ(r.nodes("MatMul"), 0);
  EXPECT_EQ(r.nodes("Gather"), 1);
}

// Not in order, or not along the rows.
TEST(GatherOneHot, OtherComparisonsStay) {
  const auto r = rewrite(R"(graph g
    input x: bool[4, 1]
    constant other: int32[1, 3] = {0, 2, 1}
    constant down: int32[3, 1] = {0, 1, 2}
    constant table: float32[3, 3] = random(1)
    constant shape: int64[2] = {1, 4}
    index = Cast(x) {to = "int32"}
    same = Equal(index, other)
    hot = Cast(same) {to = "float32"}
    y = MatMul(hot, table)
    row = Reshape(index, shape)
    across = Equal(row, down)
    columns = Cast(across) {to = "float32"}
    z = MatMul(table, columns)
    output y, z)",
                         {&kGatherOneHot}, 0);
  EXPECT_EQ(r.times("gather-one-hot"), 0);
}

}  // namespace
}  // namespace stretto::passes
