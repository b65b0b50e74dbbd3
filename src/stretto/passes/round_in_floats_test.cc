#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// Quotients by a power of two are exact, so that doubles round as floats do.
TEST(RoundInFloats, APairIsOneLoop) {
  for (std::string_view type : {"int8", "uint8", "int16"}) {
    const auto r = rewrite(fmt::format(R"(graph g
      input x: float32[2, 300]
      constant s: float32[] = {{0.015625}}
      constant z: {}[] = {{3}}
      q = QuantizeLinear(x, s, z)
      y = DequantizeLinear(q, s, z)
      output y)",
                                       type),
                           {&kRoundInFloats, &kFuseElementwise}, 0);
    EXPECT_EQ(r.times("quantize-dequantize"), 1);
    EXPECT_EQ(r.nodes("stretto.Elementwise"), 1);
    EXPECT_EQ(r.graph.nodes.size(), 1u);
  }
}

TEST(RoundInFloats, OthersMayUseTheIntegers) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 300]
    constant s: float32[] = {0.015625}
    q = QuantizeLinear(x, s)
    y = DequantizeLinear(q, s)
    output q, y)",
                         {&kRoundInFloats}, 0);
  EXPECT_EQ(r.times("quantize-dequantize"), 1);
  EXPECT_EQ(r.nodes("QuantizeLinear"), 1);
}

TEST(RoundInFloats, ScalesMayDifferButNotZeroPoints) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3]
    constant one: float32[] = {1}
    constant s: float32[] = {0.25}
    constant z: uint8[] = {3}
    q = QuantizeLinear(x, one, z)
    y = DequantizeLinear(q, s, z)
    p = QuantizeLinear(x, s)
    w = DequantizeLinear(p, s, z)
    output y, w)",
                         {&kRoundInFloats}, 0);
  EXPECT_EQ(r.times("quantize-dequantize"), 1);
  EXPECT_EQ(r.nodes("Div"), 0);
  EXPECT_EQ(r.nodes("QuantizeLinear"), 1);
}

TEST(RoundInFloats, NotAlongAnAxis) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3]
    constant s: float32[3] = {0.25, 0.5, 0.25}
    q = QuantizeLinear(x, s)
    y = DequantizeLinear(q, s)
    output y)",
                         {&kRoundInFloats}, 0);
  EXPECT_EQ(r.times("quantize-dequantize"), 0);
}

}  // namespace
}  // namespace stretto::passes
