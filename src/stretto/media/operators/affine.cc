// Operators that move pixels, as Pillow's Image.transform(AFFINE).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "stretto/media/operators/kinds.h"

namespace stretto::media::operators {
namespace {

// Image.rotate() rounds to 15 digits, so that quarter turns are exact, as Python does: in decimals.
double rounded_15(double v) {
  const std::string digits = fmt::format("{:.15f}", v);
  double rounded = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded;
}

// torchvision goes by the angle, in degrees.
double shear_angle(double tangent) {
  return std::atan(tangent) * (180 / std::numbers::pi) * (std::numbers::pi / 180);
}

// Nearest pixels, with Pillow's arithmetic: 16 bits behind the point.
template <int kChannels>
void warp_nearest(const Affine& affine, const uint8_t* from, uint8_t outside, const Pixels& to) {
  const auto& m = affine.m;
  const auto fixed = [](double v) { return static_cast<int64_t>(std::floor(v * 65536 + 0.5)); };
  const int64_t step_x = fixed(m[0]), step_y = fixed(m[3]);
  const int64_t row_x = fixed(m[1]), row_y = fixed(m[4]);
  int64_t begin_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  int64_t begin_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  uint8_t* out = to.rgb;
  for (int64_t y = 0; y < to.height; ++y, begin_x += row_x, begin_y += row_y) {
    int64_t at_x = begin_x, at_y = begin_y;
    for (int64_t x = 0; x < to.width; ++x, at_x += step_x, at_y += step_y, out += kChannels) {
      const int64_t sx = at_x >> 16, sy = at_y >> 16;
      const bool inside = sx >= 0 && sx < to.width && sy >= 0 && sy < to.height;
      const uint8_t* p = from + (inside ? kChannels * (sy * to.width + sx) : 0);
      for (int c = 0; c < kChannels; ++c) out[c] = inside ? p[c] : outside;
    }
  }
}

void warp_bilinear(const Affine& affine, const uint8_t* from, const Pixels& to) {
  const auto& m = affine.m;
  const auto w = static_cast<double>(to.width), h = static_cast<double>(to.height);
  uint8_t* out = to.rgb;
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x, out += 3) {
      const double cx = static_cast<double>(x) + 0.5, cy = static_cast<double>(y) + 0.5;
      const double sx = m[0] * cx + m[1] * cy + m[2], sy = m[3] * cx + m[4] * cy + m[5];
      if (!(sx >= 0 && sx < w && sy >= 0 && sy < h)) {
        out[0] = out[1] = out[2] = 0;
        continue;
      }
      const double fx = std::floor(sx - 0.5), fy = std::floor(sy - 0.5);
      const double dx = sx - 0.5 - fx, dy = sy - 0.5 - fy;
      const auto ix = static_cast<int64_t>(fx), iy = static_cast<int64_t>(fy);
      const int64_t x0 = 3 * std::max<int64_t>(ix, 0), x1 = 3 * std::min(ix + 1, to.width - 1);
      const uint8_t* above = from + 3 * to.width * std::max<int64_t>(iy, 0);
      const uint8_t* below = from + 3 * to.width * std::min(iy + 1, to.height - 1);
      for (int c = 0; c < 3; ++c) {
        const double a = above[x0 + c] + (above[x1 + c] - above[x0 + c]) * dx;
        const double b = below[x0 + c] + (below[x1 + c] - below[x0 + c]) * dx;
        out[c] = static_cast<uint8_t>(a + (b - a) * dy);
      }
    }
  }
}

}  // namespace

// The sums of Image.rotate(), in its order: the bilinear filter rounds towards zero, so that a last
// bit counts.
Affine affine_rotate(const Step& step, Size size) {
  double degrees = std::fmod(step.value[0], 360);
  if (degrees < 0) degrees += 360;
  const double angle = -(degrees * (std::numbers::pi / 180));
  const double c = rounded_15(std::cos(angle)), s = rounded_15(std::sin(angle));
  const double x = static_cast<double>(size.width) / 2, y = static_cast<double>(size.height) / 2;
  return {{c, s, c * -x + s * -y + x, -s, c, -s * -x + c * -y + y}};
}

Affine affine_shear_x(const Step& step, Size) {
  return {{1, std::tan(shear_angle(step.value[0])), 0, 0, 1, 0}};
}
Affine affine_shear_y(const Step& step, Size) {
  const double angle = shear_angle(step.value[0]);
  return {{1, 0, 0, std::sin(angle) / std::cos(angle), 1, 0}};
}
Affine affine_translate_x(const Step& step, Size) { return {{1, 0, -step.value[0], 0, 1, 0}}; }
Affine affine_translate_y(const Step& step, Size) { return {{1, 0, 0, 0, 1, -step.value[0]}}; }

void apply_affine(const Step& step, const Pixels& pixels, Work& work) {
  const Affine affine = step.op->affine(step, {pixels.width, pixels.height});
  work.bytes.assign(pixels.rgb, pixels.rgb + pixels.bytes());
  if (step.value[1] != 0) {
    warp_bilinear(affine, work.bytes.data(), pixels);
  } else {
    warp_nearest<3>(affine, work.bytes.data(), 0, pixels);
  }
}

void move_mask(const Affine& affine, const uint8_t* from, Size size, uint8_t outside, uint8_t* to) {
  warp_nearest<1>(affine, from, outside, {.rgb = to, .width = size.width, .height = size.height});
}

}  // namespace stretto::media::operators
