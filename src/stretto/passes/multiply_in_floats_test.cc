#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// The values of the inputs are halves and 8 bits hold them times 4, so doubles and floats agree.
TEST(MultiplyInFloats, AProductOfWhatIsQuantisedHere) {
  const auto r = rewrite(R"(graph g
    input x: float32[3, 40]
    constant w: float32[40, 5] = random(1)
    constant hundred: float32[] = {100}
    constant s: float32[] = {0.25}
    constant z: uint8[] = {12}
    constant one: int32[] = {1}
    q = QuantizeLinear(x, s, z)
    a = Cast(q) {to = "int32"}
    az = Cast(z) {to = "int32"}
    centred = Sub(a, az)
    large = Mul(w, hundred)
    b8 = Cast(large) {to = "int8"}
    b = Cast(b8) {to = "int32"}
    bz = Sub(b, one)
    sums = MatMul(centred, bz)
    y = Cast(sums) {to = "float32"}
    output y)",
                         {&kFoldConstants, &kMultiplyInFloats, &kRemoveIdentity, &kFoldConstants});
  EXPECT_EQ(r.times("integer-product"), 1);
  EXPECT_EQ(r.nodes("QuantizeLinear"), 0);
  EXPECT_EQ(r.nodes("Cast"), 0);
  ASSERT_EQ(r.nodes("MatMul"), 1);
}

TEST(MultiplyInFloats, ConvolutionsAndBiases) {
  const auto r = rewrite(R"(graph g
    input x: bool[1, 3, 6, 6]
    constant w: int8[2, 3, 3, 3] = {1, -2, 3, 4, -5, 6, 7, 8, -9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3,
      4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}
    constant bias: int32[2] = {70000, -3}
    constant z: uint8[] = {2}
    x8 = Cast(x) {to = "uint8"}
    xd = Cast(x8) {to = "float64"}
    zd = Cast(z) {to = "float64"}
    centred = Sub(xd, zd)
    wd = Cast(w) {to = "float64"}
    bd = Cast(bias) {to = "float64"}
    sums = Conv(centred, wd, bd) {pads = [1, 1, 1, 1]}
    whole = Cast(sums) {to = "int32"}
    y = Cast(whole) {to = "float32"}
    z2 = Cast(sums) {to = "float32"}
    output y, z2)",
                         {&kFoldConstants, &kMultiplyInFloats, &kRemoveIdentity}, 0);
  EXPECT_EQ(r.times("integer-product"), 1);
  ASSERT_EQ(r.nodes("Conv"), 1);
}

TEST(MultiplyInFloats, NotWhereIntegersAreKeptOrLarge) {
  const auto r = rewrite(R"(graph g
    input x: bool[4, 4]
    constant w: int32[4, 4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}
    constant wide: int32[4, 4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 70000}
    x8 = Cast(x) {to = "int8"}
    a = Cast(x8) {to = "int32"}
    kept = MatMul(a, w)
    k = Cast(kept) {to = "float32"}
    sums = MatMul(a, wide)
    y = Cast(sums) {to = "float32"}
    output kept, k, y)",
                         {&kMultiplyInFloats}, 0);
  EXPECT_EQ(r.times("integer-product"), 0);
}

}  // namespace
}  // namespace stretto::passes
