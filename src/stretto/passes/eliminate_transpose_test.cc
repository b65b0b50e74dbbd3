#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

TEST(EliminateTranspose, ChannelsLastModelsLoseTheirTransposes) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 3, 6, 6]
    constant w1: float32[4, 3, 3, 3] = random(1)
    constant w2: float32[4, 4, 1, 1] = random(2)
    constant bias: float32[4] = random(3)
    c = Conv(x, w1)
    t = Transpose(c) {perm = [0, 2, 3, 1]}
    b = Add(t, bias)
    r = Relu(b)
    back = Transpose(r) {perm = [0, 3, 1, 2]}
    y = Conv(back, w2)
    output y)",
                         {&kEliminateTranspose});
  EXPECT_EQ(r.nodes("Transpose"), 0);
  EXPECT_EQ(r.times("transpose-below-elementwise"), 2);
  EXPECT_EQ(r.times("transpose-pair"), 1);
}

TEST(EliminateTranspose, SinksBelowSumsAndConcatenations) {
  const auto r = rewrite(R"(graph g
    input a: float32[1, 3, 4, 5]
    input b: float32[1, 3, 4, 5]
    ta = Transpose(a) {perm = [0, 2, 3, 1]}
    tb = Transpose(b) {perm = [0, 2, 3, 1]}
    tc = Transpose(b) {perm = [0, 2, 3, 1]}
    s = Add(ta, tb)
    c = Concat(s, tc) {axis = -1}
    y = Transpose(c) {perm = [0, 3, 1, 2]}
    output y)",
                         {&kEliminateTranspose}, 0);
  EXPECT_EQ(r.nodes("Transpose"), 0);
  EXPECT_EQ(r.node("Concat").attributes.integer("axis", 0), 1);
}

TEST(EliminateTranspose, NotWhenOthersReadItOrInputsDiffer) {
  const auto shared = rewrite(R"(graph g
    input a: float32[2, 3]
    t = Transpose(a)
    y = Neg(t)
    output y, t)",
                              {&kEliminateTranspose}, 0);
  EXPECT_EQ(shared.fired.size(), 0u);
  const auto mixed = rewrite(R"(graph g
    input a: float32[3, 3]
    input b: float32[3, 3]
    t = Transpose(a)
    y = Add(t, b)
    output y)",
                             {&kEliminateTranspose}, 0);
  EXPECT_EQ(mixed.fired.size(), 0u);
  const auto grown = rewrite(R"(graph g
    input a: float32[1, 3]
    constant c: float32[3, 4] = random(1)
    t = Transpose(a)
    y = Add(t, c)
    output y)",
                             {&kEliminateTranspose}, 0);
  EXPECT_EQ(grown.fired.size(), 0u);
}

}  // namespace
}  // namespace stretto::passes
