#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

TEST(Deduplicate, JoinsWholeSubgraphs) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3]
    constant a: int64[1] = {1}
    constant b: int64[1] = {1}
    m = ReduceMean(x, a)
    n = ReduceMean(x, b)
    p = Sub(x, m)
    q = Sub(x, n)
    y = Mul(p, q)
    output y)",
                         {&kDeduplicate}, 0);
  EXPECT_EQ(r.times("common-subexpression"), 2);
  EXPECT_EQ(r.graph.nodes.size(), 3u);
}

TEST(Deduplicate, KeepsWhatDiffersInOneDetail) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3]
    constant a: int64[1] = {1}
    constant b: int64[1] = {0}
    m = ReduceMean(x, a)
    n = ReduceMean(x, b)
    k = ReduceMean(x, a) {keepdims = 0}
    l = LeakyRelu(x) {alpha = 0.1}
    o = LeakyRelu(x) {alpha = 0.2}
    output m, n, k, l, o)",
                         {&kDeduplicate}, 0);
  EXPECT_EQ(r.fired.size(), 0u);
}

TEST(Deduplicate, TwoOutputsStayTwo) {
  const auto r = rewrite(R"(graph g
    input x: float32[2]
    a = Neg(x)
    b = Neg(x)
    output a, b)",
                         {&kDeduplicate}, 0);
  EXPECT_EQ(r.graph.nodes.size(), 2u);
}

}  // namespace
}  // namespace stretto::passes
