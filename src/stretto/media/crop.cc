#include "stretto/media/crop.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::media {
namespace {

constexpr int kTries = 10;

// Halves to the even number, as Python's round().
int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

Region in_the_middle(int64_t width, int64_t height, int64_t w, int64_t h) {
  w = std::clamp<int64_t>(w, 1, width);
  h = std::clamp<int64_t>(h, 1, height);
  const int64_t x = (width - w) / 2, y = (height - h) / 2;
  return {x, y, x + w, y + h};
}

// The largest intersection over union of a part with a box whose middle it holds; -1: it holds
// none.
double best_overlap(std::span<const Box> boxes, const Box& part) {
  double best = -1;
  for (const Box& b : boxes) {
    const double x = (b.x0 + b.x1) / 2, y = (b.y0 + b.y1) / 2;
    if (!(x > part.x0 && x < part.x1 && y > part.y0 && y < part.y1)) continue;
    const double w = std::min(b.x1, part.x1) - std::max(b.x0, part.x0);
    const double h = std::min(b.y1, part.y1) - std::max(b.y0, part.y0);
    if (!(w > 0 && h > 0)) continue;
    const double common = w * h;
    best =
        std::max(best, common / (b.width() * b.height() + part.width() * part.height() - common));
  }
  return best;
}

}  // namespace

Region random_crop(const RandomCrop& c, int64_t width, int64_t height, SampleRandom& random) {
  if (!(c.min_area > 0 && c.min_area <= c.max_area && std::isfinite(c.max_area))) {
    throw_invalid("crop: expected 0 < min_area <= max_area, got {} and {}", c.min_area, c.max_area);
  }
  if (!(c.min_ratio > 0 && c.min_ratio <= c.max_ratio && std::isfinite(c.max_ratio))) {
    throw_invalid("crop: expected 0 < min_ratio <= max_ratio, got {} and {}", c.min_ratio,
                  c.max_ratio);
  }
  if (width < 1 || height < 1) throw_invalid("crop: a picture of {}x{}", width, height);
  const double area = static_cast<double>(width) * static_cast<double>(height);
  const double low = std::log(c.min_ratio), high = std::log(c.max_ratio);
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(c.min_area, c.max_area);
    const double ratio = std::exp(random.uniform(low, high));
    // Compared as numbers with a point: a large max_area gives sides that no integer holds.
    const double w = std::nearbyint(std::sqrt(target * ratio));
    const double h = std::nearbyint(std::sqrt(target / ratio));
    if (w < 1 || h < 1 || w > static_cast<double>(width) || h > static_cast<double>(height)) {
      continue;
    }
    const auto crop_w = static_cast<int64_t>(w), crop_h = static_cast<int64_t>(h);
    const int64_t y = random.below(height - crop_h + 1), x = random.below(width - crop_w + 1);
    return {x, y, x + crop_w, y + crop_h};
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  if (ratio < c.min_ratio) {
    return in_the_middle(width, height, width, rounded(static_cast<double>(width) / c.min_ratio));
  }
  if (ratio > c.max_ratio) {
    return in_the_middle(width, height, rounded(static_cast<double>(height) * c.max_ratio), height);
  }
  return {0, 0, width, height};
}

Region random_iou_crop(std::span<const Box> boxes, int64_t width, int64_t height,
                       SampleRandom& random) {
  constexpr double kLeastShare = 0.3, kLeastRatio = 0.5, kLargestRatio = 2;
  constexpr double kBounds[] = {0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};  // 1: the whole picture
  constexpr int kRounds = 50, kPartTries = 40;
  if (width < 1 || height < 1) throw_invalid("crop: a picture of {}x{}", width, height);
  const Region whole{0, 0, width, height};
  const auto full_w = static_cast<double>(width), full_h = static_cast<double>(height);
  for (int round = 0; round < kRounds && !boxes.empty(); ++round) {
    const double bound = kBounds[random.below(std::ssize(kBounds))];
    if (bound >= 1) return whole;
    for (int i = 0; i < kPartTries; ++i) {
      const auto w = static_cast<int64_t>(full_w * random.uniform(kLeastShare, 1));
      const auto h = static_cast<int64_t>(full_h * random.uniform(kLeastShare, 1));
      const double unit_x = random.unit(), unit_y = random.unit();
      if (w < 1 || h < 1) continue;
      const double ratio = static_cast<double>(w) / static_cast<double>(h);
      if (ratio < kLeastRatio || ratio > kLargestRatio) continue;
      const auto x = static_cast<int64_t>(static_cast<double>(width - w) * unit_x);
      const auto y = static_cast<int64_t>(static_cast<double>(height - h) * unit_y);
      const Region part{x, y, x + w, y + h};
      if (best_overlap(boxes, box_of(part)) >= bound) return part;
    }
  }
  return whole;
}

Box centre_crop(int64_t width, int64_t height, int64_t resized, int64_t out_width,
                int64_t out_height) {
  if (width < 1 || height < 1 || resized < 1 || out_width < 1 || out_height < 1) {
    throw_invalid("centre crop: {}x{} of {} of a picture of {}x{}: expected positive sizes",
                  out_width, out_height, resized, width, height);
  }
  const int64_t shorter = std::min(width, height), longer = std::max(width, height);
  const auto large = static_cast<int64_t>(
      static_cast<double>(resized) * static_cast<double>(longer) / static_cast<double>(shorter));
  return middle_of(width, height, width <= height ? resized : large,
                   width <= height ? large : resized, out_width, out_height);
}

Box middle_of(int64_t width, int64_t height, int64_t full_w, int64_t full_h, int64_t out_width,
              int64_t out_height) {
  if (out_width > full_w || out_height > full_h) {
    throw_invalid("centre crop: {}x{} is larger than the picture resized to {}x{}", out_width,
                  out_height, full_w, full_h);
  }
  const double x = static_cast<double>(rounded(static_cast<double>(full_w - out_width) / 2));
  const double y = static_cast<double>(rounded(static_cast<double>(full_h - out_height) / 2));
  const double scale_x = static_cast<double>(width) / static_cast<double>(full_w);
  const double scale_y = static_cast<double>(height) / static_cast<double>(full_h);
  return {.x0 = x * scale_x,
          .y0 = y * scale_y,
          .x1 = (x + static_cast<double>(out_width)) * scale_x,
          .y1 = (y + static_cast<double>(out_height)) * scale_y};
}

}  // namespace stretto::media
