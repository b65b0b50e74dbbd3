#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

TEST(FuseConv, SpellsOutSamePads) {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    const auto r = rewrite(std::string(R"(graph g
      input x: float32[1, 2, 8, 7]
      constant w: float32[3, 2, 4, 3] = random(1)
      y = Conv(x, w) {strides = [2, 2], auto_pad = ")") +
                               mode + "\"}\noutput y",
                           {&kFuseConv}, 0);
    EXPECT_EQ(r.times("conv"), 1);
    EXPECT_FALSE(r.node("stretto.Conv").attributes.has("auto_pad"));
  }
}

TEST(FuseConv, TransposedOutputShapeBecomesPads) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 4, 5, 5]
    constant w: float32[4, 2, 3, 3] = random(1)
    y = ConvTranspose(x, w) {strides = [2, 2], output_shape = [10, 10], group = 2}
    output y)",
                         {&kFuseConv}, 0);
  EXPECT_EQ(r.times("conv-transpose"), 1);
  EXPECT_FALSE(r.node("stretto.ConvTranspose").attributes.has("output_shape"));
}

TEST(FuseConv, LeavesComputedWeightsAlone) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 2, 5, 5]
    input w: float32[3, 2, 3, 3]
    y = Conv(x, w)
    output y)",
                         {&kFuseConv}, 0);
  EXPECT_EQ(r.nodes("Conv"), 1);
}

std::string padded(std::string_view pads, std::string_view value) {
  return fmt::format(R"(graph g
    input x: float32[1, 2, 5, 5]
    constant w: float32[3, 2, 3, 3] = random(1)
    constant p: int64[8] = {{{}}}
    constant v: float32[] = {{{}}}
    a = Pad(x, p, v)
    y = Conv(a, w) {{pads = [1, 0, 0, 0]}}
    output y)",
                     pads, value);
}

TEST(FuseConv, TakesZeroPaddingIn) {
  const auto r = rewrite(padded("0, 0, 1, 2, 0, 0, 3, 0", "0"), {&kFuseConv}, 0);
  EXPECT_EQ(r.nodes("Pad"), 0);
  EXPECT_EQ(r.node("stretto.Conv").attributes.integers("pads", {}),
            (std::vector<int64_t>{2, 2, 3, 0}));
}

TEST(FuseConv, LeavesOtherPaddingAlone) {
  EXPECT_EQ(rewrite(padded("0, 0, 1, 2, 0, 0, 3, 0", "1"), {&kFuseConv}, 0).nodes("Pad"), 1);
  EXPECT_EQ(rewrite(padded("0, 0, -1, 0, 0, 0, 0, 0", "0"), {&kFuseConv}, 0).nodes("Pad"), 1);
  const auto batch = rewrite(padded("1, 0, 0, 0, 0, 0, 0, 0", "0"), {&kFuseConv}, 0);
  EXPECT_EQ(batch.nodes("Pad"), 1);
}

std::string dilated(int size, int kernel, int dilation, int pad, int stride) {
  return fmt::format(R"(graph g
    input x: float32[1, 2, {0}, {0}]
    constant w: float32[3, 2, {1}, {1}] = random(1)
    constant b: float32[3] = random(2)
    y = Conv(x, w, b) {{dilations = [{2}, {2}], pads = [{3}, {3}, {3}, {3}], strides = [{4}, {4}]}}
    output y)",
                     size, kernel, dilation, pad, stride);
}

TEST(FuseConv, DropsTapsThatSeePaddingAlone) {
  const auto r = rewrite(dilated(6, 3, 7, 7, 1), {&kFuseConv}, 0);
  EXPECT_EQ(r.times("conv-taps"), 1);
  const ir::Attributes& a = r.node("stretto.Conv").attributes;
  EXPECT_EQ(a.integers("kernel_shape", {}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(a.integers("pads", {}), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(a.integers("dilations", {}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(rewrite(dilated(6, 3, 6, 6, 1), {&kFuseConv}, 0).times("conv-taps"), 1);
  EXPECT_EQ(rewrite(dilated(6, 3, 5, 5, 1), {&kFuseConv}, 0).times("conv-taps"), 0);
  EXPECT_EQ(rewrite(dilated(6, 1, 5, 0, 1), {&kFuseConv}, 0).times("conv-taps"), 0);
}

// Whatever is dropped, results stay the same; rewrite() compares them.
TEST(FuseConv, DroppedTapsNeverChangeResults) {
  int dropped = 0;
  for (const int size : {1, 2, 5}) {
    for (const int kernel : {2, 3, 5}) {
      for (const int dilation : {1, 2, 4, 6}) {
        for (const int pad : {0, 1, 3, 5, 8, 13}) {
          for (const int stride : {1, 3}) {
            if (size + 2 * pad < dilation * (kernel - 1) + 1) continue;
            const auto r = rewrite(dilated(size, kernel, dilation, pad, stride), {&kFuseConv}, 0);
            dropped += r.times("conv-taps");
            for (const int64_t p : r.node("stretto.Conv").attributes.integers("pads", {}))
              EXPECT_GE(p, 0);
          }
        }
      }
    }
  }
  EXPECT_GT(dropped, 20);
}

// As a graph in text form may spell it: whatever is not said has its default.
TEST(FuseConv, TakesConvolutionsThatAreInItsFormAlready) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 2, 5, 5]
    input v: float32[3, 2, 1, 1]
    constant w: float32[3, 2, 3, 3] = random(1)
    y = stretto.Conv(x, w)
    z = stretto.Conv(x, v)
    output y, z)",
                         {&kFuseConv}, 0);
  EXPECT_EQ(r.times("conv-taps"), 0);
}

TEST(FuseConv, DropsTapsOfOneDimension) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3, 4]
    constant w: float32[5, 3, 3] = random(1)
    y = Conv(x, w) {dilations = [9], pads = [9, 9]}
    output y)",
                         {&kFuseConv}, 0);
  EXPECT_EQ(r.node("stretto.Conv").attributes.integers("kernel_shape", {}),
            (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace stretto::passes
