#include "stretto/ir/fused.h"
#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

Rewritten loop(std::string_view body) {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3, 4]
    input z: float32[2, 3, 4]
    input row: float32[1, 3, 1]
    constant two: float32[] = {{2}}
    constant unit: float32[1, 1, 1, 1] = {{2}}
    {})",
                             body),
                 {&kFuseElementwise}, 0);
}

TEST(FuseElementwise, AnArithmeticDagIsOneLoop) {
  const auto r = loop(R"(a = Mul(x, two) b = Sigmoid(a) c = Tanh(a) d = Sub(b, c) e = Div(d, z)
    y = Add(e, row) output y)");
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(ir::parse_elementwise(r.program()).size(), 6u);
}

TEST(FuseElementwise, OneOperationIsALoopToo) {
  EXPECT_EQ(loop("y = Add(x, row) output y").program(), "t0 = Add(x0, x1)");
  EXPECT_EQ(loop("y = Clip(x, _, two) output y").program(), "t0 = Clip(x0, -inf, 2)");
  EXPECT_EQ(loop("y = Mul(x, x) output y").program(), "t0 = Mul(x0, x0)");
  EXPECT_EQ(loop("y = Max(x, z, row) output y").program(), "t0 = Max(x0, x1); t1 = Max(t0, x2)");
}

TEST(FuseElementwise, NothingIsComputedTwiceOrOnMoreElements) {
  EXPECT_EQ(loop("a = Exp(x) y = Neg(a) w = Abs(a) output y, w").graph.nodes.size(), 3u);
  EXPECT_EQ(loop("a = Exp(x) y = Neg(a) output y, a").graph.nodes.size(), 2u);
  EXPECT_EQ(loop("a = Exp(row) y = Mul(x, a) output y").graph.nodes.size(), 2u);
}

TEST(FuseElementwise, LiteralsMayNotCarryTheShape) {
  const auto r = loop("y = Mul(x, unit) output y");
  EXPECT_EQ(*r.graph.value(r.graph.outputs[0]).shape, (Shape{1, 2, 3, 4}));
}

Rewritten choice(std::string_view body) {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3, 4]
    input z: float32[2, 3, 4]
    input p: bool[2, 3, 4]
    input q: bool[2, 3, 4]
    input row: bool[1, 3, 1]
    constant zero: float32[] = {{0}}
    constant none: float32[] = {{nan}}
    constant yes: bool[] = {{true}}
    {})",
                             body),
                 {&kFuseElementwise}, 0);
}

TEST(FuseElementwise, ChoicesAreInTheLoop) {
  const auto r = choice(R"(more = Greater(x, zero) product = Mul(x, z) y = Where(more, x, product)
    output y)");
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(r.program(), "t0 = Mul(x0, x1); t1 = Greater(x0, 0); t2 = Where(t1, x0, t0)");
  EXPECT_EQ(choice(R"(odd = IsNaN(x) far = IsInf(z) any = Or(odd, far) both = Xor(any, p)
    neither = Not(both) y = Where(neither, none, x) output y)")
                .graph.nodes.size(),
            1u);
}

TEST(FuseElementwise, TheMaskMayBeTheResult) {
  const auto r = choice("a = Add(x, z) b = LessOrEqual(a, zero) y = And(b, row) output y");
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(r.program(), "t0 = Add(x0, x1); t1 = LessOrEqual(t0, 0); t2 = And(t1, x2)");
  EXPECT_EQ(r.node("stretto.Elementwise").attributes.text("dtype", ""), "bool");
}

TEST(FuseElementwise, CastsBetweenFloatsAndBoolsAreInTheLoop) {
  EXPECT_EQ(choice("a = Cast(p) {to = \"float32\"} y = Mul(a, x) output y").program(),
            "t0 = Mul(x0, x1)");
  EXPECT_EQ(choice("a = And(p, q) y = Cast(a) {to = \"float32\"} output y").program(),
            "t0 = And(x0, x1)");
  EXPECT_EQ(choice("a = Abs(x) y = Cast(a) {to = \"bool\"} output y").program(),
            "t0 = Abs(x0); t1 = ToBool(t0)");
  EXPECT_EQ(
      choice(R"(a = Cast(x) {to = "bool"} b = Cast(a) {to = "float32"} y = Cast(b) {to = "bool"}
    output y)")
          .program(),
      "t0 = ToBool(x0); t1 = ToBool(t0)");
  EXPECT_EQ(choice("y = Cast(p) {to = \"float32\"} output y").times("elementwise"), 0);
}

TEST(FuseElementwise, BoolsThatAreLiteralsAreNumbers) {
  EXPECT_EQ(choice("a = Xor(p, yes) y = And(a, q) output y").program(),
            "t0 = Xor(x0, 1); t1 = And(t0, x1)");
}

TEST(FuseElementwise, ValuesWithTwoUsersInOneLoopAreInIt) {
  const auto r = choice(R"(a = Mul(x, z) b = Exp(a) more = Greater(a, zero) c = Where(more, a, b)
    y = Add(c, b) output y)");
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(ir::parse_elementwise(r.program()).size(), 5u);
}

TEST(FuseElementwise, MasksThatAreRepeatedStay) {
  EXPECT_EQ(choice("a = Not(row) y = Where(a, x, z) output y").graph.nodes.size(), 2u);
}

// The program's own result is no truth; And of it is.
TEST(FuseElementwise, ResultsOfTypeBoolAreTruthInTheLoop) {
  const auto r = choice(
      R"graph(a = stretto.Elementwise(x, z) {dtype = "bool", program = "t0 = Sub(x0, x1)"}
      y = Equal(a, p) output y)graph");
  EXPECT_EQ(r.program(), "t0 = Sub(x0, x1); t1 = ToBool(t0); t2 = Equal(t1, x2)");
}

TEST(FuseElementwise, OtherTypesStay) {
  const auto r = rewrite(R"(graph g
    input i: int64[3]
    input d: float64[3]
    j = Add(i, i)
    e = Neg(d)
    output j, e)",
                         {&kFuseElementwise}, 0);
  EXPECT_EQ(r.fired.size(), 0u);
}

TEST(FuseElementwise, StaysWithinTheLimitsOfALoop) {
  std::string body;
  for (int i = 0; i < 40; ++i) {
    body += fmt::format("a{} = Neg({})\n", i, i == 0 ? "x" : fmt::format("a{}", i - 1));
  }
  EXPECT_EQ(loop(body + "output a39").graph.nodes.size(), 2u);  // 32 steps and 8
  std::string sums;  // a number is an operation of the kernel, too
  for (int i = 0; i < 20; ++i) {
    sums += fmt::format("a{} = Add({}, two)\n", i, i == 0 ? "x" : fmt::format("a{}", i - 1));
  }
  EXPECT_EQ(loop(sums + "output a19").graph.nodes.size(), 2u);  // 16 steps and 4
  std::string wide = "graph g\n", chain;
  for (int i = 0; i < 10; ++i) wide += fmt::format("input i{}: float32[3]\n", i);
  for (int i = 1; i < 10; ++i) {
    chain += fmt::format("s{} = Add({}, i{})\n", i, i == 1 ? "i0" : fmt::format("s{}", i - 1), i);
  }
  EXPECT_EQ(rewrite(wide + chain + "output s9", {&kFuseElementwise}, 0).graph.nodes.size(), 2u);
}

}  // namespace
}  // namespace stretto::passes
