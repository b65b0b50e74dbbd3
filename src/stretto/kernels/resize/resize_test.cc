#include "stretto/kernels/resize/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// At most 16 products with weights rounded to fp32.
constexpr double kTolerance = 2e-6;

// A map of 7x11 to sizes of every kind.
std::vector<ResizeProblem> larger_and_smaller(int64_t channels) {
  std::vector<ResizeProblem> problems;
  for (const auto& [out_h, out_w] :
       {std::pair{14, 22}, {7, 11}, {3, 40}, {1, 1}, {0, 5}, {20, 17}}) {
    problems.push_back({.n = 2,
                        .c = channels,
                        .h = 7,
                        .w = 11,
                        .out_h = out_h,
                        .out_w = out_w,
                        .scale_h = std::max(out_h, 1) / 7.0,
                        .scale_w = out_w / 11.0});
  }
  return problems;
}

TEST(Resize, ModesSizesLayoutsThreads) {
  for (int mode = 0; mode < 3; ++mode) {
    for (int coordinates = 0; coordinates < 5; ++coordinates) {
      for (int rounding = 0; rounding < (mode == 0 ? 4 : 1); ++rounding) {
        for (Layout layout : {Layout::kPlain, Layout::kBlocked}) {
          int threads = 0;
          for (ResizeProblem p : larger_and_smaller(19)) {
            p.target.threads = 1 + threads++ % 3;
            p.mode = static_cast<Resampling>(mode);
            p.coordinates = static_cast<Coordinates>(coordinates);
            p.rounding = static_cast<NearestRounding>(rounding);
            p.layout = layout;
            p.exclude_outside = mode == 2 && coordinates % 2;
            EXPECT_GT(check_rows(kResize, p, kTolerance), 0);
          }
        }
      }
    }
  }
}

TEST(Resize, BytesAreTheReference) {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    for (int mode = 0; mode < 2; ++mode) {
      for (int coordinates = 0; coordinates < 5; ++coordinates) {
        int threads = 0;
        for (ResizeProblem p : larger_and_smaller(3)) {
          p.target.threads = 1 + threads++ % 3;
          p.mode = static_cast<Resampling>(mode);
          p.coordinates = static_cast<Coordinates>(coordinates);
          p.rounding = static_cast<NearestRounding>(coordinates % 4);
          p.dtype = dtype;
          EXPECT_GT(check_rows(kResize, p, 0), 0);
        }
      }
    }
  }
}

TEST(Resize, ScaleThatIsNotTheRatioOfSizes) {
  ResizeProblem p{
      .n = 1, .c = 3, .h = 9, .w = 9, .out_h = 5, .out_w = 5, .scale_h = 0.6, .scale_w = 0.6};
  for (int coordinates = 0; coordinates < 5; ++coordinates) {
    p.coordinates = static_cast<Coordinates>(coordinates);
    check_rows(kResize, p, kTolerance);
  }
}

TEST(Resize, SpecialValues) {
  for (int mode = 0; mode < 3; ++mode) {
    const ResizeProblem p{.n = 1,
                          .c = 5,
                          .h = 8,
                          .w = 9,
                          .out_h = 13,
                          .out_w = 15,
                          .scale_h = 13 / 8.0,
                          .scale_w = 15 / 9.0,
                          .mode = static_cast<Resampling>(mode)};
    check_rows(kResize, p, kTolerance, [](Workbench& b) { b.input(0)[40] = NAN; });
  }
}

// The linear and nearest rows are worked out by hand; the cubic one is the example of the ONNX
// operator.
void expect_row(const ResizeProblem& p, const std::vector<float>& x, int64_t oy,
                const std::vector<float>& expected) {
  for (int row = 0; row < kResize.rows; ++row) {
    if (!kResize.fits(row, &p).ok) continue;
    Workbench bench(kResize, &p);
    bench.unalign_inputs();
    std::copy(x.begin(), x.end(), bench.input(0).begin());
    bench.run(row);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(bench.output(0)[oy * p.out_w + static_cast<int64_t>(i)], expected[i], 1e-5)
          << kResize.row_name(row) << " column " << i;
    }
  }
}

TEST(Resize, KnownValues) {
  ResizeProblem p{.h = 2, .w = 2, .out_h = 4, .out_w = 4, .scale_h = 2, .scale_w = 2};
  p.target.isa = kIsas.front();
  const std::vector<float> x{1, 2, 3, 4};
  expect_row(p, x, 1, {1.5f, 1.75f, 2.25f, 2.5f});
  p.coordinates = Coordinates::kAlignCorners;
  expect_row(p, x, 0, {1, 1 + 1 / 3.0f, 1 + 2 / 3.0f, 2});
  p.coordinates = Coordinates::kAsymmetric;
  expect_row(p, x, 3, {3, 3.5f, 4, 4});
  p.mode = Resampling::kNearest;
  p.rounding = NearestRounding::kFloor;
  expect_row(p, x, 2, {3, 3, 4, 4});
  p.mode = Resampling::kCubic;
  p.coordinates = Coordinates::kHalfPixel;
  std::vector<float> ramp(16);
  for (int i = 0; i < 16; ++i) ramp[i] = static_cast<float>(i + 1);
  p.h = p.w = 4;
  p.out_h = p.out_w = 8;
  expect_row(p, ramp, 0,
             {0.47265625f, 0.76953125f, 1.24609375f, 1.875f, 2.28125f, 2.91015625f, 3.38671875f,
              3.68359375f});
}

}  // namespace
}  // namespace stretto::kernels
