// torchvision's GaussianBlur: in floats, mirrored at the edges, rounded once. It multiplies by a
// square of weights; here rows and columns follow each other, with the same product.
#include <algorithm>
#include <cmath>

#include "stretto/media/operators/kinds.h"

namespace stretto::media::operators {
namespace {

// Place i of a line of `count` that is mirrored at its first and last element.
int64_t mirrored(int64_t i, int64_t count) {
  if (count == 1) return 0;
  const int64_t period = 2 * (count - 1);
  i = (i % period + period) % period;
  return std::min(i, period - i);
}

std::vector<float> gaussian(int64_t size, double sigma) {
  std::vector<float> weight(static_cast<size_t>(size));
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / sigma;
    sum += std::exp(-0.5 * x * x);
  }
  for (int64_t i = 0; i < size; ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / sigma;
    weight[static_cast<size_t>(i)] = static_cast<float>(std::exp(-0.5 * x * x) / sum);
  }
  return weight;
}

}  // namespace

void apply_gaussian_blur(const Step& step, const Pixels& pixels, Work& work) {
  const auto size = static_cast<int64_t>(step.value[0]);
  const int64_t half = size / 2, row = 3 * pixels.width, padded = row + 6 * half;
  const std::vector<float> weight = gaussian(size, step.value[1]);
  work.bytes.assign(pixels.rgb, pixels.rgb + pixels.bytes());
  work.floats.resize(static_cast<size_t>(padded + row));
  float* const line = work.floats.data();
  float* const sums = line + padded;
  for (int64_t y = 0; y < pixels.height; ++y) {
    float* const inner = line + 3 * half;
    std::fill(inner, inner + row, 0.0f);
    for (int64_t t = 0; t < size; ++t) {
      const uint8_t* from = work.bytes.data() + mirrored(y + t - half, pixels.height) * row;
      const float w = weight[static_cast<size_t>(t)];
      for (int64_t i = 0; i < row; ++i) inner[i] += w * static_cast<float>(from[i]);
    }
    for (int64_t x = 1; x <= half; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        inner[-3 * x + c] = inner[3 * mirrored(-x, pixels.width) + c];
        inner[row + 3 * (x - 1) + c] = inner[3 * mirrored(pixels.width - 1 + x, pixels.width) + c];
      }
    }
    std::fill(sums, sums + row, 0.5f);
    for (int64_t t = 0; t < size; ++t) {
      const float w = weight[static_cast<size_t>(t)];
      for (int64_t i = 0; i < row; ++i) sums[i] += w * line[i + 3 * t];
    }
    uint8_t* to = pixels.rgb + y * row;
    for (int64_t i = 0; i < row; ++i) to[i] = static_cast<uint8_t>(std::min(sums[i], 255.0f));
  }
}

}  // namespace stretto::media::operators
