#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// A matrix in float32 rounds each of its values once; sums of at most 160 of them.
constexpr double kTolerance = 1e-6;

struct Case {
  const char *shape, *length;  // of the input; of the transform, empty: as many as the input has
  int axis;
  bool inverse, onesided;
};

std::string graph_of(const Case& c) {
  const bool padded = *c.length != 0;
  return fmt::format(
      R"(graph g
    input x: float32[{}]
    constant axis: int64[] = {{{}}}
    {}
    y = DFT(x, {}, axis) {{inverse = {}, onesided = {}}}
    output y)",
      c.shape, c.axis, padded ? fmt::format("constant n: int64[] = {{{}}}", c.length) : "",
      padded ? "n" : "_", c.inverse ? 1 : 0, c.onesided ? 1 : 0);
}

TEST(FourierProducts, EveryKindOfTransform) {
  for (const Case& c : {
           Case{"2, 3, 16, 1", "", -2, false, false}, Case{"2, 3, 16, 1", "", 2, false, true},
           Case{"2, 15, 4, 2", "", 1, false, false}, Case{"6, 15, 4, 2", "", 0, true, false},
           Case{"3, 9, 2", "", 1, true, true}, Case{"3, 9, 2", "17", 1, true, true},
           Case{"3, 5, 2", "17", 1, true, true}, Case{"3, 9, 1", "20", 1, false, true},
           Case{"3, 9, 2", "20", 1, false, false}, Case{"40, 2", "", 0, false, false},
           Case{"3, 127, 1", "", 1, false, true},  // kernels take long for primes
       }) {
    SCOPED_TRACE(graph_of(c));
    const auto r = rewrite(graph_of(c), {&kFourierProducts}, kTolerance);
    EXPECT_EQ(r.times("dft"), 1);
    EXPECT_EQ(r.nodes("DFT"), 0);
    EXPECT_EQ(r.nodes("MatMul"), 1);
  }
}

TEST(FourierProducts, NotWhereItDropsElementsOrIsLong) {
  for (const Case& c : {
           Case{"3, 9, 1", "8", 1, false, false},  // might be infinite
           Case{"3, 9, 2", "14", 1, true, true},
           Case{"3, 128, 1", "", 1, false, true},
           Case{"3, 1021, 1", "", 1, false, true},
       }) {
    SCOPED_TRACE(graph_of(c));
    EXPECT_EQ(rewrite(graph_of(c), {&kFourierProducts}, 0).times("dft"), 0);
  }
}

TEST(FourierProducts, NotInDoublePrecision) {
  const auto r = rewrite(R"(graph g
    input x: float64[2, 8, 1]
    constant axis: int64[] = {1}
    y = DFT(x, _, axis) {}
    output y)",
                         {&kFourierProducts}, 0);
  EXPECT_EQ(r.times("dft"), 0);
}

TEST(FourierProducts, FramesAreAConvolution) {
  for (const char* tail : {"x, step, window", "x, step, window, n", "x, step, _, n"}) {
    for (const int onesided : {0, 1}) {
      const auto r = rewrite(fmt::format(R"(graph g
    input x: float32[2, 100, 1]
    constant step: int64[] = {{7}}
    constant n: int64[] = {{16}}
    constant window: float32[16] = random(3)
    y = STFT({}) {{onesided = {}}}
    output y)",
                                         tail, onesided),
                             {&kFourierProducts}, kTolerance);
      EXPECT_EQ(r.times("stft"), 1);
      EXPECT_EQ(r.nodes("Conv"), 1);
    }
  }
}

TEST(FourierProducts, NotUnderAWindowThatIsComputed) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 100, 1]
    input window: float32[16]
    constant step: int64[] = {7}
    y = STFT(x, step, window)
    output y)",
                         {&kFourierProducts}, 0);
  EXPECT_EQ(r.times("stft"), 0);
}

TEST(FourierProducts, AnStftMayBeOfRowsOfNumbers) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 100]
    constant step: int64[] = {7}
    constant window: float32[5] = {0.25, 0.5, 1, 1.5, 2}
    y = STFT(x, step, window)
    output y)",
                         {&kFourierProducts}, kTolerance);
  EXPECT_EQ(r.nodes("STFT"), 0);
  EXPECT_EQ(r.nodes("Conv"), 1);
}

}  // namespace
}  // namespace stretto::passes
