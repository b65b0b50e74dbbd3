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

}  // namespace
}  // namespace stretto::passes
