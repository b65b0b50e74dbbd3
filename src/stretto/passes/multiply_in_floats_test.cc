#include "stretto/base/cpu.h"
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
                         {&kFoldConstants, &kMultiplyInFloats, &kRemoveIdentity, &kFoldConstants},
                         1e-6, {"exact-linear"});
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

// ONNX Runtime's dynamic quantisation: the bias is quantised at run time and added to the sums.
TEST(MultiplyInFloats, SumsWithAQuantisedBias) {
  const auto r =
      rewrite(R"(graph g
    input x: float32[1, 3, 6, 6]
    constant w: uint8[2, 3, 2, 2] = {1, 255, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3,
      4, 5, 0}
    constant wz: uint8[] = {121}
    constant bias: float32[2] = {3.5, -1000}
    constant shape: int64[4] = {1, 2, 1, 1}
    constant s: float32[] = {0.25}
    constant z: uint8[] = {12}
    q = QuantizeLinear(x, s, z)
    xd = Cast(q) {to = "float64"}
    zd = Cast(z) {to = "float64"}
    centred = Sub(xd, zd)
    wd = Cast(w) {to = "float64"}
    wzd = Cast(wz) {to = "float64"}
    weight = Sub(wd, wzd)
    sums = Conv(centred, weight) {auto_pad = "SAME_UPPER"}
    whole = Cast(sums) {to = "int32"}
    scale = ReduceMax(x) {keepdims = 0}
    steps = Div(bias, scale)
    rounded = Floor(steps)
    quantised = Cast(rounded) {to = "int32"}
    column = Reshape(quantised, shape)
    total = Add(whole, column)
    floats = Cast(total) {to = "float32"}
    y = Mul(floats, s)
    output y)",
              {&kFoldConstants, &kMultiplyInFloats, &kRemoveIdentity, &kFoldConstants}, 0);
  EXPECT_EQ(r.times("integer-sums"), 1);
  ASSERT_EQ(r.nodes("stretto.Conv"), 1);
  EXPECT_EQ(r.node("stretto.Conv").attributes.integer("exact", 0), 1);
  EXPECT_EQ(r.nodes("Cast"), 0);
}

// 600 products of 255 and about 200 come close to 2^24 and beyond.
TEST(MultiplyInFloats, SumsThatFloat32DoesNotHoldAreCut) {
  const auto r = rewrite(R"(graph g
    input x: bool[1, 600, 2, 2]
    constant w: float64[2, 600, 1, 1] = random(3)
    constant wide: float64[] = {450}
    constant times: uint8[] = {255}
    x8 = Cast(x) {to = "uint8"}
    large = Mul(x8, times)
    xd = Cast(large) {to = "float64"}
    ws = Mul(w, wide)
    wr = Round(ws)
    wc = Abs(wr)
    sums = Conv(xd, wc)
    y = Cast(sums) {to = "int32"}
    output y)",
                         {&kFoldConstants, &kMultiplyInFloats, &kRemoveIdentity}, 0);
  EXPECT_EQ(r.times("integer-sums"), 1);
  EXPECT_GT(r.nodes("stretto.Conv"), 1);
  EXPECT_EQ(r.nodes("Add") + 1, r.nodes("stretto.Conv"));
}

TEST(MultiplyInFloats, IntegerProductsOfMatrices) {
  const auto r = rewrite(R"(graph g
    input x: bool[3, 4]
    constant w: int32[4, 4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, -7}
    constant bias: int32[4] = {70000, 2, 3, 16777215}
    x8 = Cast(x) {to = "int8"}
    a = Cast(x8) {to = "int32"}
    sums = MatMul(a, w)
    total = Add(bias, sums)
    y = Cast(total) {to = "float32"}
    kept = MatMul(a, w)
    output y, kept)",
                         {&kMultiplyInFloats, &kRemoveIdentity}, 0, {"exact-linear"});
  EXPECT_EQ(r.times("integer-sums"), 2);
  EXPECT_EQ(r.nodes("MatMul"), 2);
  EXPECT_EQ(r.node("Add").outputs.size(), 1u);
}

// Weights from -30 to 225: int8 holds them less 98 only, and rows are summed for the rest.
TEST(MultiplyInFloats, WeightsThatInt8DoesNotHoldAreShifted) {
  const int times = usable_isa() == Isa::kPortable ? 0 : 2;  // floats are faster there
  const auto r = rewrite(R"(graph g
    input x: float32[3, 4]
    constant w: uint8[4, 2] = {1, 255, 3, 4, 5, 6, 0, 8}
    constant wz: uint8[] = {30}
    constant bias: int32[2] = {-70000, 5}
    constant s: float32[] = {0.01}
    constant z: uint8[] = {120}
    q = QuantizeLinear(x, s, z)
    a = Cast(q) {to = "int32"}
    az = Cast(z) {to = "int32"}
    centred = Sub(a, az)
    wi = Cast(w) {to = "int32"}
    wzi = Cast(wz) {to = "int32"}
    weight = Sub(wi, wzi)
    sums = MatMul(centred, weight)
    total = Add(sums, bias)
    floats = Cast(total) {to = "float32"}
    y = Mul(floats, s)
    plain = MatMul(centred, weight)
    y2 = Cast(plain) {to = "float32"}
    output y, y2)",
                         {&kFoldConstants, &kMultiplyInFloats, &kRemoveIdentity}, 0);
  EXPECT_EQ(r.times("exact-linear"), times);
  EXPECT_EQ(r.nodes("stretto.IntegerLinear"), 2 * times);
  EXPECT_EQ(r.nodes("MatMul"), 2 - times);
}

}  // namespace
}  // namespace stretto::passes
