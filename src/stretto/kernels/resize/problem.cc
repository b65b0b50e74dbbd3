#include "stretto/kernels/resize/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace stretto::kernels {
namespace {

// In the arithmetic of T: a nearest neighbour is what single precision says it is, as exporters and
// other runtimes have it, because a scale of one third puts coordinates right between two pixels.
template <typename T>
T source_position(Coordinates coordinates, int64_t output, int64_t input_length,
                  int64_t output_length, double scale_factor) {
  const auto o = static_cast<T>(output), in = static_cast<T>(input_length),
             out = static_cast<T>(output_length), scale = static_cast<T>(scale_factor);
  const T half_pixel = (o + T(0.5)) / scale - T(0.5);
  switch (coordinates) {
    case Coordinates::kHalfPixel:
      return half_pixel;
    case Coordinates::kPytorchHalfPixel:
      return out > 1 ? half_pixel : 0;
    case Coordinates::kAlignCorners:
      return out > 1 ? o * (in - 1) / (out - 1) : 0;
    case Coordinates::kAsymmetric:
      return o / scale;
    case Coordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - out / (scale * in)) + half_pixel;
  }
  return half_pixel;
}

double rounded(NearestRounding rounding, double x) {
  switch (rounding) {
    case NearestRounding::kRoundPreferFloor:
      return std::ceil(x - 0.5);
    case NearestRounding::kRoundPreferCeil:
      return std::floor(x + 0.5);
    case NearestRounding::kFloor:
      return std::floor(x);
    case NearestRounding::kCeil:
      return std::ceil(x);
  }
  return x;
}

}  // namespace

ResizeTaps resize_taps(const ResizeProblem& p, int64_t o, int64_t in, int64_t out, double scale) {
  ResizeTaps taps{};
  const double x = p.mode == Resampling::kNearest
                       ? double{source_position<float>(p.coordinates, o, in, out, scale)}
                       : source_position<double>(p.coordinates, o, in, out, scale);
  int64_t first = 0;
  if (p.mode == Resampling::kNearest) {
    first = static_cast<int64_t>(rounded(p.rounding, x));
    taps.weight[0] = 1;
  } else {
    const double floor = std::floor(x), t = x - floor, a = p.cubic_a;
    first = static_cast<int64_t>(floor);
    if (p.mode == Resampling::kLinear) {
      const double unit = int64_t{1} << kByteWeightBits;
      taps.weight[1] = p.dtype == DType::kFloat32 ? t : std::round(t * unit) / unit;
      taps.weight[0] = 1 - taps.weight[1];
    } else {
      first -= 1;
      const auto near = [a](double s) { return ((a + 2) * s - (a + 3)) * s * s + 1; };
      const auto far = [a](double s) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; };
      taps.weight[0] = far(1 + t);
      taps.weight[1] = near(t);
      taps.weight[2] = near(1 - t);
      taps.weight[3] = far(2 - t);
    }
  }
  double sum = 0;
  for (int k = 0; k < p.taps(); ++k) {
    const int64_t at = first + k;
    if (p.exclude_outside && p.mode == Resampling::kCubic && (at < 0 || at >= in)) {
      taps.weight[k] = 0;
    }
    taps.index[k] = std::clamp<int64_t>(at, 0, std::max<int64_t>(in - 1, 0));
    sum += taps.weight[k];
  }
  for (int k = 0; k < p.taps() && p.exclude_outside && sum != 0; ++k) taps.weight[k] /= sum;
  return taps;
}

std::string problem_key(const ResizeProblem& p) {
  static constexpr std::array<std::string_view, 3> kModes{"nearest", "linear", "cubic"};
  static constexpr std::array<std::string_view, 5> kCoordinates{
      "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"};
  static constexpr std::array<std::string_view, 4> kRoundings{"prefer_floor", "prefer_ceil",
                                                              "floor", "ceil"};
  const size_t mode = static_cast<size_t>(p.mode);
  std::string text =
      fmt::format("resize {} {}", kModes[mode], kCoordinates[static_cast<size_t>(p.coordinates)]);
  if (p.mode == Resampling::kNearest) {
    text += fmt::format(" {}", kRoundings[static_cast<size_t>(p.rounding)]);
  }
  if (p.mode == Resampling::kCubic) {
    text += fmt::format(" a{}{}", p.cubic_a, p.exclude_outside ? " inside" : "");
  }
  if (p.dtype != DType::kFloat32) text += fmt::format(" {}", dtype_name(p.dtype));
  return text + fmt::format(" {}x{}x{}x{} > {}x{} scale {},{} {} {}", p.n, p.c, p.h, p.w, p.out_h,
                            p.out_w, p.scale_h, p.scale_w, layout_name(p.layout),
                            target_text(p.target));
}

Signature problem_signature(const ResizeProblem& p) {
  return {.inputs =
              {{.name = "x", .dtype = p.dtype, .shape = {p.n, p.c, p.h, p.w}, .layout = p.layout}},
          .constants = {},
          .outputs = {{.name = "y",
                       .dtype = p.dtype,
                       .shape = {p.n, p.c, p.out_h, p.out_w},
                       .layout = p.layout}}};
}

double problem_flops(const ResizeProblem& p) {
  return p.mode == Resampling::kNearest ? 0 : 4.0 * p.taps() * p.n * p.c * p.out_h * p.out_w;
}

}  // namespace stretto::kernels
