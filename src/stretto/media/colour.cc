#include "stretto/media/colour.h"

#include <cmath>
#include <numbers>

namespace stretto::media {
namespace {

// What RGB counts for in grey, as Pillow and JFIF have it.
constexpr std::array<float, 3> kGrey{0.299f, 0.587f, 0.114f};

// factor * rgb + (1 - factor) * grey.
ColourMatrix blend_with_grey(float factor) {
  ColourMatrix result;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t k = 0; k < 3; ++k) {
      result.m[c][k] = (1 - factor) * kGrey[k] + (c == k ? factor : 0);
    }
  }
  return result;
}

ColourMatrix scale(float factor, float offset) {
  ColourMatrix result;
  for (size_t c = 0; c < 3; ++c) {
    result.m[c][c] = factor;
    result.m[c][3] = offset;
  }
  return result;
}

ColourMatrix rgb_to_ycbcr() {
  return {{{{0.299f, 0.587f, 0.114f, 0},
            {-0.168736f, -0.331264f, 0.5f, 128},
            {0.5f, -0.418688f, -0.081312f, 128}}}};
}

}  // namespace

ColourMatrix then(const ColourMatrix& first, const ColourMatrix& second) {
  ColourMatrix result;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t k = 0; k < 4; ++k) {
      double sum = k == 3 ? second.m[c][3] : 0;
      for (size_t i = 0; i < 3; ++i) sum += static_cast<double>(second.m[c][i]) * first.m[i][k];
      result.m[c][k] = static_cast<float>(sum);
    }
  }
  return result;
}

ColourMatrix brightness(float factor) { return scale(factor, 0); }
ColourMatrix contrast(float factor, float mean_grey) {
  return scale(factor, (1 - factor) * mean_grey);
}
ColourMatrix saturation(float factor) { return blend_with_grey(factor); }

ColourMatrix hue(float turns) {
  const float angle = 2 * std::numbers::pi_v<float> * turns;
  const float c = std::cos(angle), s = std::sin(angle);
  // Around (128, 128), where there is no colour.
  const ColourMatrix turn{
      {{{1, 0, 0, 0}, {0, c, -s, 128 * (1 - c + s)}, {0, s, c, 128 * (1 - c - s)}}}};
  return then(then(rgb_to_ycbcr(), turn), ycbcr_to_rgb());
}

ColourMatrix ycbcr_to_rgb() {
  constexpr float kRed = 1.402f, kGreenBlue = 0.344136f, kGreenRed = 0.714136f, kBlue = 1.772f;
  return {{{{1, 0, kRed, -128 * kRed},
            {1, -kGreenBlue, -kGreenRed, 128 * (kGreenBlue + kGreenRed)},
            {1, kBlue, 0, -128 * kBlue}}}};
}

}  // namespace stretto::media
