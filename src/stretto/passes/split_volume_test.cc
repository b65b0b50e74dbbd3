#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

std::string conv(std::string_view shape, std::string_view weight, std::string_view attributes,
                 int outputs) {
  return fmt::format(R"(graph g
    input x: float32{}
    constant w: float32{} = random(1)
    constant b: float32[{}] = random(2)
    y = Conv(x, w, b) {}
    output y)",
                     shape, weight, outputs, attributes);
}

TEST(SplitVolume, AConvolutionIsOneOverPlanes) {
  for (std::string_view attributes :
       {"{pads = [1, 1, 1, 1, 1, 1]}", "{strides = [2, 1, 2], pads = [0, 1, 1, 2, 1, 0]}",
        "{dilations = [2, 1, 1]}", "{auto_pad = \"SAME_UPPER\", strides = [2, 2, 2]}", ""}) {
    const auto r =
        rewrite(conv("[2, 3, 6, 5, 7]", "[4, 3, 3, 3, 3]", attributes, 4), {&kSplitVolume});
    EXPECT_EQ(r.times("volume-conv"), 1) << attributes;
    EXPECT_EQ(r.graph.value(r.node("Conv").outputs[0]).shape->size(), 4u);
  }
}

TEST(SplitVolume, Groups) {
  const auto r =
      rewrite(conv("[1, 4, 5, 6, 6]", "[6, 2, 3, 3, 3]", "{group = 2}", 6), {&kSplitVolume});
  EXPECT_EQ(r.times("volume-conv"), 1);
  const auto depthwise =
      rewrite(conv("[1, 4, 5, 6, 6]", "[4, 1, 3, 1, 1]", "{group = 4}", 4), {&kSplitVolume});
  EXPECT_EQ(depthwise.times("volume-conv"), 1);
}

TEST(SplitVolume, OneTapNeedsNoCopies) {
  const auto r = rewrite(conv("[1, 4, 5, 6, 6]", "[6, 4, 1, 1, 1]", "", 6), {&kSplitVolume});
  EXPECT_EQ(r.nodes("Gather"), 0);
  EXPECT_EQ(r.nodes("Pad"), 0);
}

TEST(SplitVolume, APoolIsTwo) {
  for (std::string_view op : {"MaxPool", "AveragePool"}) {
    for (std::string_view attributes :
         {"kernel_shape = [2, 2, 2], strides = [2, 2, 2]",
          "kernel_shape = [3, 3, 3], strides = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1]",
          "kernel_shape = [3, 2, 3], strides = [2, 2, 2], ceil_mode = 1",
          "kernel_shape = [1, 3, 3], pads = [0, 1, 1, 0, 1, 1]",
          "kernel_shape = [3, 3, 3], auto_pad = \"SAME_LOWER\", strides = [2, 2, 2]"}) {
      const auto r = rewrite(fmt::format(R"(graph g
        input x: float32[2, 3, 6, 5, 7]
        y = {}(x) {{{}}}
        output y)",
                                         op, attributes),
                             {&kSplitVolume});
      EXPECT_EQ(r.times("volume-pool"), 1) << op << attributes;
    }
  }
  const auto padded = rewrite(R"(graph g
    input x: float32[2, 3, 6, 5, 7]
    y = AveragePool(x) {kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1], count_include_pad = 1}
    output y)",
                              {&kSplitVolume});
  EXPECT_EQ(padded.times("volume-pool"), 1);
}

TEST(SplitVolume, AResizeIsTwo) {
  for (std::string_view mode : {"linear", "nearest", "cubic"}) {
    for (std::string_view places : {"half_pixel", "align_corners", "asymmetric"}) {
      for (std::string_view how : {"y = Resize(x, _, s)", "y = Resize(x, _, _, z)"}) {
        const auto r = rewrite(fmt::format(R"(graph g
          input x: float32[2, 3, 4, 5, 6]
          constant s: float32[5] = {{1, 1, 2, 1.5, 3}}
          constant z: int64[5] = {{2, 3, 8, 7, 13}}
          {} {{mode = "{}", coordinate_transformation_mode = "{}"}}
          output y)",
                                           how, mode, places),
                               {&kSplitVolume});
        EXPECT_EQ(r.times("volume-resize"), 1) << mode << " " << places;
        EXPECT_EQ(r.graph.value(r.node("Resize").outputs[0]).shape->size(), 4u);
      }
    }
  }
}

}  // namespace
}  // namespace stretto::passes
