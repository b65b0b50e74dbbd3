#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

Rewritten norm(std::string_view axis, std::string_view square, std::string_view tail,
               std::string_view outputs = "y") {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3, 8]
    constant axis: int64[1] = {{{}}}
    constant two: float32[] = {{2}}
    constant eps: float32[] = {{0.001}}
    constant scale: float32[8] = random(1)
    constant bias: float32[8] = random(2)
    constant wide: float32[3, 8] = random(3)
    mean = ReduceMean(x, axis)
    d = Sub(x, mean)
    sq = {}
    var = ReduceMean(sq, axis)
    ve = Add(var, eps)
    std = Sqrt(ve)
    {}
    output {})",
                             axis, square, tail, outputs),
                 {&kRecogniseLayerNorm});
}

TEST(RecogniseLayerNorm, WithAndWithoutScaleAndBias) {
  for (std::string_view square : {"Pow(d, two)", "Mul(d, d)"}) {
    const auto full = norm("-1", square, "n = Div(d, std) m = Mul(n, scale) y = Add(bias, m)");
    EXPECT_EQ(full.graph.nodes.size(), 1u);
    EXPECT_EQ(full.node("LayerNormalization").inputs.size(), 3u);
    EXPECT_EQ(norm("2", square, "y = Div(d, std)").graph.nodes.size(), 1u);
  }
}

TEST(RecogniseLayerNorm, StopsAtWhatOthersReadOrIsNotPerColumn) {
  EXPECT_EQ(norm("-1", "Mul(d, d)", "y = Div(d, std) m = Mul(y, scale)", "y, m").nodes("Mul"), 1);
  EXPECT_EQ(norm("-1", "Mul(d, d)", "n = Div(d, std) y = Mul(n, wide)").nodes("Mul"), 1);
}

TEST(RecogniseLayerNorm, NotOverAnotherAxisNorOtherPowers) {
  EXPECT_EQ(norm("1", "Mul(d, d)", "y = Div(d, std)").times("layer-norm"), 0);
  EXPECT_EQ(norm("-1", "Mul(d, x)", "y = Div(d, std)").times("layer-norm"), 0);
  EXPECT_EQ(norm("-1", "Mul(x, x)", "y = Div(d, std)").times("layer-norm"), 0);
}

Rewritten rms(std::string_view square, std::string_view tail, std::string_view outputs = "y") {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3, 8]
    constant axis: int64[1] = {{-1}}
    constant one: float32[] = {{1}}
    constant two: float32[] = {{2}}
    constant eps: float32[] = {{0.001}}
    constant scale: float32[8] = random(1)
    constant bias: float32[8] = random(2)
    sq = {}
    mean = ReduceMean(sq, axis)
    shifted = Add(eps, mean)
    root = Sqrt(shifted)
    {}
    output {})",
                             square, tail, outputs),
                 {&kRecogniseLayerNorm});
}

TEST(RecogniseRmsNorm, InTheThreeFormsThatExportersWrite) {
  for (std::string_view square : {"Pow(x, two)", "Mul(x, x)"}) {
    for (std::string_view tail :
         {"n = Div(x, root) y = Mul(n, scale)",
          "inverse = Reciprocal(root) n = Mul(x, inverse) y = Mul(scale, n)",
          "inverse = Div(one, root) n = Mul(inverse, x) y = Mul(n, scale)"}) {
      const auto done = rms(square, tail);
      EXPECT_EQ(done.graph.nodes.size(), 1u) << tail;
      EXPECT_NEAR(done.node("RMSNormalization").attributes.number("epsilon", 0), 1e-3, 1e-9);
      EXPECT_EQ(done.times("rms-norm"), 1);
    }
    EXPECT_EQ(rms(square, "y = Div(x, root)").node("RMSNormalization").inputs.size(), 2u);
  }
}

TEST(RecogniseRmsNorm, TakesNoBiasAndStopsAtWhatOthersRead) {
  const auto shifted = rms("Mul(x, x)", "n = Div(x, root) m = Mul(n, scale) y = Add(m, bias)");
  EXPECT_EQ(shifted.nodes("Add"), 1);
  EXPECT_EQ(shifted.nodes("RMSNormalization"), 1);
  const auto shared = rms("Mul(x, x)", "y = Div(x, root) m = Mul(y, scale)", "y, m");
  EXPECT_EQ(shared.nodes("Mul"), 1);
  // The root is wanted by itself: it stays, the quotient does not need it.
  EXPECT_EQ(rms("Mul(x, x)", "y = Div(x, root)", "y, root").nodes("Sqrt"), 1);
}

TEST(RecogniseRmsNorm, NotOfSomethingElseThanWhatIsDivided) {
  EXPECT_EQ(rms("Mul(x, bias)", "y = Div(x, root)").fired.size(), 0u);
  EXPECT_EQ(rms("Mul(x, x)", "y = Div(bias, root)").fired.size(), 0u);
  EXPECT_EQ(rms("Mul(x, x)", "i = Div(two, root) y = Mul(x, i)").fired.size(), 0u);
}

TEST(RecogniseLayerNorm, ByTheReciprocalToo) {
  const auto done = norm("-1", "Mul(d, d)",
                         "i = Reciprocal(std) n = Mul(d, i) m = Mul(n, scale) y = Add(m, bias)");
  EXPECT_EQ(done.graph.nodes.size(), 1u);
  EXPECT_EQ(done.node("LayerNormalization").inputs.size(), 3u);
}

constexpr std::string_view kSum = R"(graph g
    input x: float32[2, 3, 8]
    input r: float32[2, 3, 8]
    constant scale: float32[8] = random(1)
    constant bias: float32[8] = random(2)
    s = Add(x, r)
)";

// Not kSum + "...": GCC 12 then warns of a copy past the end of a string that it has not grown yet.
std::string after_sum(std::string_view rest) {
  std::string text(kSum);
  return text.append(rest);
}

TEST(FuseAddLayerNorm, WithTheSumWhenOthersReadIt) {
  const auto alone =
      rewrite(after_sum("y = LayerNormalization(s, scale, bias)\noutput y"), {&kFuseAddLayerNorm});
  EXPECT_EQ(alone.graph.nodes.size(), 1u);
  EXPECT_EQ(alone.node("stretto.AddLayerNorm").outputs.size(), 1u);
  const auto shared = rewrite(
      after_sum("n = LayerNormalization(s, scale) {epsilon = 0.01} y = Add(n, s)\noutput y, s"),
      {&kFuseAddLayerNorm});
  EXPECT_EQ(shared.graph.nodes.size(), 2u);
  EXPECT_EQ(shared.node("stretto.AddLayerNorm").outputs.size(), 2u);
}

TEST(FuseAddLayerNorm, NotOverTwoAxesNorBroadcastSums) {
  const auto axes = rewrite(R"(graph g
    input x: float32[2, 3, 8]
    input r: float32[2, 3, 8]
    constant scale: float32[3, 8] = random(1)
    s = Add(x, r)
    y = LayerNormalization(s, scale) {axis = 1}
    output y)",
                            {&kFuseAddLayerNorm});
  EXPECT_EQ(axes.fired.size(), 0u);
  const auto row = rewrite(R"(graph g
    input x: float32[2, 3, 8]
    input r: float32[8]
    constant scale: float32[8] = random(1)
    s = Add(x, r)
    y = LayerNormalization(s, scale)
    output y)",
                           {&kFuseAddLayerNorm});
  EXPECT_EQ(row.fired.size(), 0u);
}

}  // namespace
}  // namespace stretto::passes
