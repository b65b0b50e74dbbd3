#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kNorm = R"(
    constant g: float32[4] = {1, 2, 3, -4}
    constant b: float32[4] = random(3)
    constant m: float32[4] = random(4)
    constant v: float32[4] = {1, 2, 1, 0.5})";
const std::vector<const Pass*> kPasses{&kFuseConv, &kFuseLinear, &kFoldBatchNorm};

Rewritten fold(std::string_view body) {
  return rewrite(fmt::format("graph g{}\n{}", kNorm, body), kPasses);
}

TEST(FoldBatchNorm, IntoConvolutionsOfEveryKind) {
  EXPECT_EQ(fold(R"(input x: float32[2, 3, 5, 5]
    constant w: float32[4, 3, 3, 3] = random(1)
    constant c: float32[4] = random(2)
    a = Conv(x, w, c)
    y = BatchNormalization(a, g, b, m, v)
    output y)")
                .graph.nodes.size(),
            1u);
  EXPECT_EQ(fold(R"(input x: float32[2, 4, 5]
    constant w: float32[4, 2, 3] = random(1)
    a = Conv(x, w) {group = 2}
    y = BatchNormalization(a, g, b, m, v) {epsilon = 0.1}
    output y)")
                .graph.nodes.size(),
            1u);
  EXPECT_EQ(fold(R"(input x: float32[1, 6, 4, 4]
    constant w: float32[6, 2, 3, 3] = random(1)
    a = ConvTranspose(x, w) {group = 2, strides = [2, 2]}
    y = BatchNormalization(a, g, b, m, v)
    output y)")
                .graph.nodes.size(),
            1u);
}

TEST(FoldBatchNorm, IntoLinearsOfBothForms) {
  EXPECT_EQ(fold(R"(input x: float32[2, 3]
    constant w: float32[3, 4] = random(1)
    a = MatMul(x, w)
    y = BatchNormalization(a, g, b, m, v)
    output y)")
                .graph.nodes.size(),
            1u);
  EXPECT_EQ(fold(R"(input x: float32[2, 3]
    constant w: float32[4, 3] = random(1)
    constant c: float32[1, 4] = random(2)
    a = Gemm(x, w, c) {transB = 1, alpha = 0.5, beta = 2.0}
    y = BatchNormalization(a, g, b, m, v)
    output y)")
                .graph.nodes.size(),
            1u);
}

TEST(FoldBatchNorm, NotOverTheWrongAxis) {
  // Rows of a 3-D product are not its channels.
  const auto r = fold(R"(input x: float32[2, 4, 3]
    constant w: float32[3, 4] = random(1)
    a = MatMul(x, w)
    y = BatchNormalization(a, g, b, m, v)
    output y)");
  EXPECT_EQ(r.times("fold-batch-norm"), 0);
  EXPECT_EQ(r.times("batch-norm-affine"), 1);
}

TEST(FoldBatchNorm, NotWhenTheConvolutionHasOtherUses) {
  const auto shared = fold(R"(input x: float32[1, 3, 5, 5]
    constant w: float32[4, 3, 3, 3] = random(1)
    a = Conv(x, w)
    y = BatchNormalization(a, g, b, m, v)
    output y, a)");
  EXPECT_EQ(shared.times("fold-batch-norm"), 0);
  EXPECT_EQ(shared.nodes("Mul"), 1);
}

TEST(FoldBatchNorm, IntoTheNextConvolutionWithoutPadding) {
  const auto text = [](std::string_view pads) {
    return fmt::format(R"(input x: float32[1, 4, 5, 5]
      constant w: float32[6, 2, 3, 3] = random(1)
      n = BatchNormalization(x, g, b, m, v)
      y = Conv(n, w) {{group = 2, pads = {}}}
      output y)",
                       pads);
  };
  const auto r = fold(text("[0, 0, 0, 0]"));
  EXPECT_EQ(r.times("batch-norm-into-next"), 1);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(fold(text("[1, 1, 1, 1]")).times("batch-norm-into-next"), 0);
}

TEST(FoldBatchNorm, ScalesAndShiftsPerChannel) {
  const auto r = fold(R"(input x: float32[1, 3, 5, 5]
    constant w: float32[4, 3, 3, 3] = random(1)
    constant s: float32[4, 1, 1] = random(5)
    constant t: float32[1, 4, 1, 1] = random(6)
    constant half: float32[] = {0.5}
    a = Conv(x, w)
    p = Mul(s, a)
    q = Sub(t, p)
    z = Div(q, half)
    y = Sub(z, half)
    output y)");
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(r.times("fold-scale"), 2);
  EXPECT_EQ(r.times("fold-shift"), 2);
}

TEST(FoldBatchNorm, NotScalesThatVaryOverTheImageOrBroadcastTheResult) {
  const auto image = fold(R"(input x: float32[1, 3, 4, 4]
    constant w: float32[4, 3, 1, 1] = random(1)
    constant s: float32[4] = random(5)
    a = Conv(x, w)
    y = Mul(a, s)
    output y)");
  EXPECT_EQ(image.times("fold-scale"), 0);
  const auto grown = fold(R"(input x: float32[1, 3, 1, 1]
    constant w: float32[1, 3, 1, 1] = random(1)
    constant s: float32[4, 1, 1] = random(5)
    a = Conv(x, w)
    y = Mul(a, s)
    output y)");
  EXPECT_EQ(grown.times("fold-scale"), 0);
  const auto reciprocal = fold(R"(input x: float32[1, 3, 1, 1]
    constant w: float32[1, 3, 1, 1] = random(1)
    constant s: float32[] = {2}
    a = Conv(x, w)
    y = Div(s, a)
    output y)");
  EXPECT_EQ(reciprocal.times("fold-scale"), 0);
}

}  // namespace
}  // namespace stretto::passes
