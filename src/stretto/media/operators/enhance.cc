// Pillow's ImageEnhance: a blend of a picture with a poorer one.
#include <algorithm>
#include <cmath>

#include "stretto/media/colour.h"
#include "stretto/media/operators/kinds.h"

namespace stretto::media::operators {
namespace {

// Image.blend(poor, picture, factor): in float, rounded towards zero. A factor beyond 0..1 may
// leave the range of bytes.
inline uint8_t blended(int poor, int value, float factor) {
  const float result =
      static_cast<float>(poor) + factor * (static_cast<float>(value) - static_cast<float>(poor));
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(result, 0.0f), 255.0f)));
}

using Lookup = std::array<uint8_t, 256>;

Lookup blend_with(int poor, float factor) {
  Lookup table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = blended(poor, v, factor);
  return table;
}

void look_up(const Lookup& table, const Pixels& pixels) {
  for (int64_t i = 0; i < pixels.bytes(); ++i) pixels.rgb[i] = table[pixels.rgb[i]];
}

// convert("L"): 0.299, 0.587 and 0.114 in 16 bits.
inline int grey_of(const uint8_t* p) {
  return static_cast<int>((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
}

float factor_of(const Step& step) { return static_cast<float>(step.value[0]); }

}  // namespace

void apply_brightness(const Step& step, const Pixels& pixels, Work&) {
  look_up(blend_with(0, factor_of(step)), pixels);
}

void apply_contrast(const Step& step, const Pixels& pixels, Work&) {
  int64_t sum = 0;
  for (int64_t i = 0; i < pixels.bytes(); i += 3) sum += grey_of(pixels.rgb + i);
  const double count = static_cast<double>(pixels.width * pixels.height);
  const int mean = static_cast<int>(static_cast<double>(sum) / count + 0.5);
  look_up(blend_with(mean, factor_of(step)), pixels);
}

void apply_color(const Step& step, const Pixels& pixels, Work&) {
  const float factor = factor_of(step);
  for (int64_t i = 0; i < pixels.bytes(); i += 3) {
    uint8_t* p = pixels.rgb + i;
    const int grey = grey_of(p);
    for (int c = 0; c < 3; ++c) p[c] = blended(grey, p[c], factor);
  }
}

void apply_grayscale(const Step&, const Pixels& pixels, Work&) {
  for (int64_t i = 0; i < pixels.bytes(); i += 3) {
    uint8_t* p = pixels.rgb + i;
    p[0] = p[1] = p[2] = static_cast<uint8_t>(grey_of(p));
  }
}

// The poorer picture is filter(ImageFilter.SMOOTH): a pixel counts 5 of 13 and each neighbour 1.
// Pixels at the edges stay, whatever the factor.
void apply_sharpness(const Step& step, const Pixels& pixels, Work& work) {
  const float factor = factor_of(step);
  const int64_t row = 3 * pixels.width;
  work.bytes.assign(pixels.rgb, pixels.rgb + pixels.bytes());
  for (int64_t y = 1; y + 1 < pixels.height; ++y) {
    const uint8_t* from = work.bytes.data() + y * row;
    uint8_t* __restrict to = pixels.rgb + y * row;
    for (int64_t x = 3; x < row - 3; ++x) {
      const uint8_t *above = from + x - row, *at = from + x, *below = from + x + row;
      const int sum = above[-3] + above[0] + above[3] + at[-3] + 5 * at[0] + at[3] + below[-3] +
                      below[0] + below[3];
      // sum / 13, rounded: never halfway, and at least 1/26 from where it would be another.
      const int smooth = static_cast<int>(static_cast<float>(2 * sum + 13) * (1.0f / 26));
      to[x] = blended(smooth, at[0], factor);
    }
  }
}

void apply_hue(const Step& step, const Pixels& pixels, Work&) {
  const ColourMatrix matrix = hue(static_cast<float>(step.value[0]));
  for (int64_t i = 0; i < pixels.bytes(); i += 3) {
    uint8_t* p = pixels.rgb + i;
    const float r = p[0], g = p[1], b = p[2];
    for (size_t c = 0; c < 3; ++c) {
      const auto& m = matrix.m[c];
      const float v = m[0] * r + m[1] * g + m[2] * b + m[3];
      p[c] = static_cast<uint8_t>(std::clamp(v, 0.0f, 255.0f) + 0.5f);
    }
  }
}

}  // namespace stretto::media::operators
