#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

Rewritten gemm(std::string_view c, std::string_view attributes, std::string_view inputs = "") {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3]
    {}
    constant w: float32[4, 3] = random(1)
    {}
    y = Gemm(x, w, c) {{transB = 1{}}}
    output y)",
                             inputs, c, attributes),
                 {&kFuseLinear});
}

TEST(FuseLinear, GemmWithEveryKindOfBias) {
  for (std::string_view shape : {"[4]", "[1, 4]", "[]", "[1]", "[1, 1]"}) {
    const auto r = gemm(fmt::format("constant c: float32{} = random(2)", shape), "");
    EXPECT_EQ(r.times("gemm-linear"), 1) << shape;
    EXPECT_EQ(r.graph.value(r.node("stretto.Linear").inputs[2]).shape, Shape{4});
  }
  EXPECT_EQ(
      gemm("constant c: float32[4] = random(2)", ", alpha = 0.5, beta = 3.0").times("gemm-linear"),
      1);
}

// The address sanitizer sees it if the shape of y is read where it was before the weight came in.
TEST(FuseLinear, AConstantThatIsAddedMovesTheShapes) {
  for (int more = 0; more < 16; ++more) {
    std::string others;
    for (int i = 0; i < more; ++i) others += fmt::format("constant o{}: float32[1] = {{1}}\n", i);
    const auto r = gemm(others + "constant c: float32[4] = random(2)", ", alpha = 0.5");
    EXPECT_EQ(r.graph.value(r.node("stretto.Linear").inputs[2]).shape, Shape{4}) << more;
  }
}

TEST(FuseLinear, AComputedSummandIsAResidual) {
  EXPECT_EQ(gemm("", "", "input c: float32[2, 4]").times("gemm-linear"), 1);
  EXPECT_EQ(gemm("", ", beta = 2.0", "input c: float32[2, 4]").times("gemm-linear"), 0);
  EXPECT_EQ(gemm("", "", "input c: float32[4]").times("gemm-linear"), 0);
  EXPECT_EQ(gemm("constant c: float32[2, 1] = random(2)", "").times("gemm-linear"), 0);
}

TEST(FuseLinear, NotAVectorNorABatchOfMatrices) {
  const auto batch = rewrite(R"(graph g
    input x: float32[2, 3, 5]
    constant w: float32[2, 5, 4] = random(1)
    y = MatMul(x, w)
    output y)",
                             {&kFuseLinear}, 0);
  EXPECT_EQ(batch.nodes("MatMul"), 1);
  const auto vector = rewrite(R"(graph g
    input x: float32[5]
    constant w: float32[5, 4] = random(1)
    y = MatMul(x, w)
    output y)",
                              {&kFuseLinear}, 0);
  EXPECT_EQ(vector.nodes("MatMul"), 1);
}

TEST(FuseMatMul, TakesTransposeAndScale) {
  const auto r = rewrite(R"(graph g
    input a: float32[2, 3, 5]
    input b: float32[2, 4, 5]
    constant s: float32[] = {4}
    t = Transpose(b) {perm = [0, 2, 1]}
    m = MatMul(a, t)
    y = Div(m, s)
    output y)",
                         {&kFuseMatMul});
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  const auto other = rewrite(R"(graph g
    input a: float32[2, 3, 5]
    input b: float32[5, 2, 4]
    constant s: float32[3, 1] = {4, 5, 6}
    t = Transpose(b) {perm = [1, 0, 2]}
    m = MatMul(a, t)
    y = Div(m, s)
    output y)",
                             {&kFuseMatMul});
  EXPECT_EQ(other.times("matmul-transpose") + other.times("matmul-scale"), 0);
}

}  // namespace
}  // namespace stretto::passes
