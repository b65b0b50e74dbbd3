#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

Rewritten recognise(std::string_view body, std::string_view outputs = "y") {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3]
    input z: float32[2, 3]
    constant half: float32[] = {{0.5}}
    constant one: float32[] = {{1}}
    constant two: float32[] = {{2}}
    constant three: float32[] = {{3}}
    constant six: float32[] = {{6}}
    constant sixth: float32[] = {{0.16666667}}
    constant zero: float32[] = {{0}}
    constant root2: float32[] = {{1.4142135}}
    constant irt2: float32[] = {{0.70710677}}
    constant c0: float32[] = {{0.044715}}
    constant c1: float32[] = {{0.7978846}}
    {}
    output {})",
                             body, outputs),
                 {&kRecogniseActivation});
}

TEST(RecogniseActivation, EverySpelling) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"silu", "s = Sigmoid(x) y = Mul(s, x)"},
      {"gelu", "d = Div(x, root2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"},
      {"gelu", "d = Mul(x, irt2) e = Erf(d) a = Add(one, e) h = Mul(half, x) y = Mul(h, a)"},
      {"gelu", "d = Mul(x, irt2) e = Erf(d) a = Add(one, e) h = Mul(a, half) y = Mul(x, h)"},
      {"gelu", "d = Div(x, root2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Div(m, two)"},
      {"gelu-tanh",
       "p = Pow(x, three) q = Mul(p, c0) r = Add(x, q) s = Mul(r, c1) t = Tanh(s) "
       "a = Add(t, one) h = Mul(x, half) y = Mul(h, a)"},
      {"gelu-tanh",
       "p = Mul(x, x) p3 = Mul(p, x) q = Mul(c0, p3) r = Add(q, x) s = Mul(c1, r) "
       "t = Tanh(s) a = Add(one, t) m = Mul(x, a) y = Mul(m, half)"},
      {"hard-swish", "h = HardSigmoid(x) {alpha = 0.16666667, beta = 0.5} y = Mul(x, h)"},
      {"hard-swish", "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)"},
      {"hard-swish", "a = Add(x, three) c = Clip(a, zero, six) m = Mul(c, sixth) y = Mul(x, m)"},
      {"hard-swish", "a = Add(x, three) c = Clip(a, zero, six) m = Div(c, six) y = Mul(m, x)"},
      {"hard-sigmoid", "a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)"},
      {"mish", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"}};
  for (const auto& [rule, body] : cases) {
    const auto r = recognise(body);
    EXPECT_EQ(r.times(rule), 1) << body;
    EXPECT_EQ(r.graph.nodes.size(), 1u) << body;
  }
}

TEST(RecogniseActivation, NotWithWrongConstantsOrOperands) {
  for (std::string_view body :
       {"s = Sigmoid(x) y = Mul(s, z)",
        "d = Div(x, two) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
        "d = Div(x, root2) e = Erf(d) a = Add(e, two) m = Mul(x, a) y = Mul(m, half)",
        "d = Div(x, root2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, two)",
        "d = Div(z, root2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
        "h = HardSigmoid(x) {alpha = 0.2, beta = 0.5} y = Mul(x, h)",
        "a = Add(x, two) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, three) c = Clip(a, one, six) m = Mul(x, c) y = Div(m, six)",
        "s = Softplus(z) t = Tanh(s) y = Mul(x, t)"}) {
    EXPECT_EQ(recognise(body).fired.size(), 0u) << body;
  }
}

TEST(RecogniseActivation, ASharedGateStaysButIsNotNeeded) {
  const auto r = recognise("s = Sigmoid(x) y = Mul(s, x) w = Mul(s, z)", "y, w");
  EXPECT_EQ(r.times("silu"), 1);
  EXPECT_EQ(r.nodes("Sigmoid"), 1);
}

TEST(RecogniseActivation, BroadcastGatesAreNotActivations) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 1]
    constant row: float32[1, 3] = {1, 1, 1}
    e = Mul(x, row)
    s = Sigmoid(x)
    y = Mul(s, e)
    output y)",
                         {&kRecogniseActivation}, 0);
  EXPECT_EQ(r.fired.size(), 0u);
}

}  // namespace
}  // namespace stretto::passes
