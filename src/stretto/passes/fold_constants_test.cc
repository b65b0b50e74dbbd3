#include <fmt/format.h>

#include "stretto/base/random.h"
#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

TEST(FoldConstants, EvaluatesWhatDependsOnNoInput) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 600]
    constant a: float32[2, 600] = random(1)
    constant b: float32[2, 600] = random(2)
    s = Add(a, b)
    n = Neg(s)
    y = Mul(x, n)
    output y)",
                         {&kFoldConstants});  // folding rounds the sum to float32
  EXPECT_EQ(r.times("fold-constant"), 2);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
}

TEST(FoldConstants, DropsWhatInferenceKnows) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3, 4]
    constant i: int64[1] = {1}
    constant minus: int64[1] = {-1}
    shape = Shape(x)
    batch = Gather(shape, i)
    target = Concat(batch, minus) {axis = 0}
    y = Reshape(x, target)
    output y)",
                         {&kFoldConstants}, 0);
  EXPECT_EQ(r.times("drop-known"), 3);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
}

TEST(FoldConstants, RandomNumbersAreNotKnownAndNeedNoShapeSource) {
  const RepeatedDraws repeated;
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3]
    constant a: float32[2, 3] = random(1)
    s = Exp(x)
    n = RandomNormalLike(s) {node = 1}
    u = RandomUniformLike(a) {node = 2}
    v = RandomUniformLike(a) {node = 3}
    t = Add(n, u)
    y = Add(t, v)
    output y)",
                         {&kFoldConstants, &kDeduplicate});
  EXPECT_EQ(r.times("drop-shape-source"), 3);
  EXPECT_EQ(r.times("fold-constant"), 0);
  EXPECT_EQ(r.graph.nodes.size(), 5u);
}

TEST(FoldConstants, AnOutputMayBecomeAConstant) {
  const auto r = rewrite(R"(graph g
    input x: float32[2]
    constant a: float32[2] = {1, 2}
    s = Neg(a)
    y = Add(x, s)
    output s, y)",
                         {&kFoldConstants}, 0);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_TRUE(r.graph.value(r.graph.outputs[0]).is_constant());
}

TEST(FoldConstants, KeepsLargeBroadcastsAsNodes) {
  const auto r = rewrite(R"(graph g
    input x: float32[1]
    constant a: float32[1] = {2}
    constant shape: int64[2] = {1024, 1024}
    e = Expand(a, shape)
    y = Mul(x, e)
    output y)",
                         {&kFoldConstants}, 0);
  EXPECT_EQ(r.nodes("Expand"), 1);
}

// Filters of a resampler: a table of two vectors, 1.2 MB, and no larger one.
TEST(FoldConstants, ComputesTables) {
  for (const int64_t rows : {640, 5000}) {
    const auto r = rewrite(fmt::format(R"(graph g
      input x: float32[1, 455]
      constant t: float32[{}, 1] = random(1)
      constant i: float32[455] = random(2)
      at = Add(t, i)
      wave = Cos(at)
      scaled = Mul(wave, wave)
      turned = Transpose(scaled)
      y = MatMul(x, turned)
      output y)",
                                       rows),
                           {&kFoldConstants});
    EXPECT_EQ(r.graph.nodes.size(), rows == 640 ? 1u : 5u);
  }
}

TEST(FoldConstants, WidensLargeWeights) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 1024]
    constant w: float16[1024, 1024] = random(1)
    constant scale: float32[1] = {0.02}
    wide = Cast(w) {to = "float32"}
    q = Cast(w) {to = "int8"}
    real = DequantizeLinear(q, scale)
    z = MatMul(x, wide)
    y = MatMul(z, real)
    output y)",
                         {&kFoldConstants}, 0);
  EXPECT_EQ(r.nodes("Cast"), 0);
  EXPECT_EQ(r.nodes("DequantizeLinear"), 0);
}

}  // namespace
}  // namespace stretto::passes
