#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

Rewritten pool(std::string_view body) {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3, 4, 5]
    constant image: int64[2] = {{2, -1}}
    constant rows: int64[1] = {{2}}
    constant flat: int64[2] = {{2, 3}}
    constant square: int64[4] = {{2, 3, 1, 1}}
    {}
    output y)",
                             body),
                 {&kSqueezeExcite});
}

TEST(SqueezeExcite, MeansOverImagesArePools) {
  EXPECT_EQ(pool("y = ReduceMean(x, image)").nodes("GlobalAveragePool"), 1);
  const auto dropped = pool("y = ReduceMean(x, image) {keepdims = 0}");
  EXPECT_EQ(dropped.nodes("GlobalAveragePool") + dropped.nodes("Reshape"), 2);
  EXPECT_EQ(pool("y = AveragePool(x) {kernel_shape = [4, 5]}").nodes("GlobalAveragePool"), 1);
}

TEST(SqueezeExcite, OtherMeansAreNot) {
  EXPECT_EQ(pool("y = ReduceMean(x, rows)").fired.size(), 0u);
  EXPECT_EQ(pool("y = ReduceMean(x)").fired.size(), 0u);
  EXPECT_EQ(pool("y = AveragePool(x) {kernel_shape = [4, 4]}").fired.size(), 0u);
  EXPECT_EQ(
      pool("y = AveragePool(x) {kernel_shape = [4, 5], pads = [1, 0, 0, 0], strides = [2, 1]}")
          .fired.size(),
      0u);
}

TEST(SqueezeExcite, GateActivationsMoveBeforeTheReshape) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3, 4, 5]
    constant w: float32[3, 3] = random(1)
    constant image: int64[2] = {2, 3}
    constant square: int64[4] = {2, 3, 1, 1}
    p = ReduceMean(x, image) {keepdims = 0}
    l = MatMul(p, w)
    e = Reshape(l, square)
    g = HardSigmoid(e)
    y = Mul(x, g)
    output y)",
                         {&kSqueezeExcite, &kFuseLinear, &kFuseEpilogue, &kFuseElementwise});
  EXPECT_EQ(r.times("flat-gate"), 1);
  EXPECT_EQ(r.times("activation"), 1);
  EXPECT_EQ(r.nodes("stretto.Elementwise"), 1);
}

TEST(SqueezeExcite, NotWhenTheReshapedIsReadElsewhere) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3]
    constant square: int64[4] = {2, 3, 1, 1}
    e = Reshape(x, square)
    y = Sigmoid(e)
    output y, e)",
                         {&kSqueezeExcite}, 0);
  EXPECT_EQ(r.times("flat-gate"), 0);
}

Rewritten radix(std::string_view shape, std::string_view body) {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 6, 4, 4]
    input a: float32[2, 6, 1, 1]
    constant five: int64[5] = {{{}}}
    constant gates: int64[5] = {{2, 2, 3, 1, 1}}
    constant axis: int64[1] = {{1}}
    u = Reshape(x, five)
    {}
    output y)",
                             shape, body),
                 {&kSplitRadix});
}

TEST(SplitRadix, SumsOfMaps) {
  const auto two = radix("2, 2, 3, 4, 4", "y = ReduceSum(u, axis) {keepdims = 0}");
  EXPECT_EQ(two.nodes("Split") + two.nodes("Add"), 2);
  EXPECT_EQ(two.nodes("Reshape"), 0);
  const auto three = radix("2, 3, 2, 4, 4", "y = ReduceSum(u, axis) {keepdims = 0}");
  EXPECT_EQ(three.nodes("Add"), 2);
}

TEST(SplitRadix, WeightedSums) {
  const auto r = radix("2, 2, 3, 4, 4",
                       "g = Reshape(a, gates) m = Mul(u, g) y = ReduceSum(m, axis) {keepdims = 0}");
  EXPECT_EQ(r.times("radix-weighted-sum"), 1);
  EXPECT_EQ(r.nodes("Mul"), 2);
  EXPECT_EQ(r.nodes("Reshape"), 0);
}

TEST(SplitRadix, NotOtherAxesOrShapes) {
  EXPECT_EQ(radix("2, 2, 3, 4, 4", "y = ReduceSum(u, axis)").fired.size(), 0u);
  EXPECT_EQ(radix("2, 2, 3, 2, 8", "y = ReduceSum(u, axis) {keepdims = 0}").fired.size(), 0u);
}

}  // namespace
}  // namespace stretto::passes
