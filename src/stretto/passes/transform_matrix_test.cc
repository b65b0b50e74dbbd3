#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

TEST(TransformMatrix, AnStftIsAConvolution) {
  for (std::string_view shape : {"[2, 100]", "[2, 100, 1]"}) {
    const auto r = rewrite(fmt::format(R"(graph g
      input x: float32{}
      constant step: int64[] = {{7}}
      constant window: float32[20] = {{0.25, 0.5, 1, 1.5, 2, 1, 1, 1, 1, 1,
                                       1, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25}}
      constant length: int64[] = {{20}}
      y = STFT(x, step, window, length)
      output y)",
                                       shape),
                           {&kTransformMatrix});
    EXPECT_EQ(r.times("stft-filters"), 1);
    EXPECT_EQ(r.nodes("STFT"), 0);
    EXPECT_EQ(r.nodes("Conv"), 1);
  }
}

TEST(TransformMatrix, WithoutAWindowOrBothSides) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 64]
    constant step: int64[] = {16}
    constant length: int64[] = {24}
    y = STFT(x, step, _, length) {onesided = 0}
    output y)",
                         {&kTransformMatrix});
  EXPECT_EQ(r.times("stft-filters"), 1);
}

TEST(TransformMatrix, ADftIsAProduct) {
  for (std::string_view attributes :
       {"", "{onesided = 1}", "{inverse = 1}", "{inverse = 1, onesided = 1}"}) {
    for (int parts : {1, 2}) {
      if (parts == 2 && attributes == "{onesided = 1}") continue;  // of real numbers only
      const auto r = rewrite(fmt::format(R"(graph g
        input x: float32[2, 3, 10, {}]
        y = DFT(x) {}
        output y)",
                                         parts, attributes),
                             {&kTransformMatrix});
      EXPECT_EQ(r.times("dft-matrix"), 1) << parts << attributes;
      EXPECT_EQ(r.nodes("MatMul"), 1);
    }
  }
}

TEST(TransformMatrix, ALengthMayCutOrFillUp) {
  for (int length : {6, 10, 16}) {
    const auto r = rewrite(fmt::format(R"(graph g
      input x: float32[2, 10, 1]
      constant length: int64[] = {{{}}}
      constant axis: int64[] = {{1}}
      y = DFT(x, length, axis) {{onesided = 1}}
      output y)",
                                       length),
                           {&kTransformMatrix});
    EXPECT_EQ(r.times("dft-matrix"), 1) << length;
  }
}

TEST(TransformMatrix, OtherTransformsStay) {
  const auto axis = rewrite(R"(graph g
    input x: float32[5, 4, 1]
    constant axis: int64[] = {0}
    y = DFT(x, _, axis)
    output y)",
                            {&kTransformMatrix});
  EXPECT_EQ(axis.nodes("DFT"), 1) << "another axis than the last";
  const auto large = rewrite(R"(graph g
    input x: float32[1, 4096, 1]
    y = DFT(x)
    output y)",
                             {&kTransformMatrix});
  EXPECT_EQ(large.nodes("DFT"), 1) << "a matrix of 128 MB";
}

}  // namespace
}  // namespace stretto::passes
