#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

TEST(ComputedConv, IsAProduct) {
  struct Case {
    std::string_view x, w, attributes;
  };
  for (const Case& c : {Case{"[2, 3, 6, 7]", "[4, 3, 3, 3]", "{pads = [1, 1, 1, 1]}"},
                        Case{"[1, 4, 9, 8]", "[6, 2, 3, 2]", "{group = 2, strides = [2, 1]}"},
                        Case{"[2, 4, 6, 6]", "[4, 1, 3, 3]", "{group = 4, dilations = [2, 1]}"},
                        Case{"[2, 1, 50]", "[5, 1, 11]", "{strides = [7], pads = [2, 0]}"},
                        Case{"[1, 2, 4, 5, 6]", "[3, 2, 2, 3, 3]", "{pads = [1, 0, 1, 0, 1, 1]}"},
                        Case{"[2, 3, 6, 7]", "[4, 3, 1, 1]", ""}}) {
    const auto r = rewrite(fmt::format(R"(graph g
      input x: float32{}
      input w: float32{}
      input b: float32[{}]
      y = Conv(x, w, b) {}
      output y)",
                                       c.x, c.w, c.w.substr(1, 1), c.attributes),
                           {&kComputedConv});
    EXPECT_EQ(r.times("computed-conv"), 1) << c.x;
    EXPECT_EQ(r.nodes("Conv"), 0);
  }
}

TEST(ComputedConv, AComputedBiasIsAdded) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3, 6, 7]
    input b: float32[4]
    constant w: float32[4, 3, 3, 3] = random(1)
    y = Conv(x, w, b)
    output y)",
                         {&kComputedConv, &kFuseConv});
  EXPECT_EQ(r.times("computed-bias"), 1);
  EXPECT_EQ(r.nodes("stretto.Conv"), 1);
}

TEST(ComputedConv, ConstantsStay) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3, 6, 7]
    constant w: float32[4, 3, 3, 3] = random(1)
    y = Conv(x, w)
    output y)",
                         {&kComputedConv});
  EXPECT_EQ(r.nodes("Conv"), 1);
}

}  // namespace
}  // namespace stretto::passes
