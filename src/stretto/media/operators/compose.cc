// Operators that draw steps of other rows, and the rectangle of `erase`.
#include <algorithm>
#include <cmath>

#include "stretto/media/operators/kinds.h"

namespace stretto::media::operators {
namespace {

// An entry of a space of magnitudes: bins 0 to 30 from `low` to `high`.
struct Entry {
  const char* name;  // nullptr: the picture stays as it is
  double low = 0, high = 0;
  bool either_sign = false;
  enum class Is : uint8_t { kValue, kFactor, kShareOfWidth, kShareOfHeight, kBits } is = Is::kValue;
};

constexpr int kBins = 31;
constexpr double kMove = 150.0 / 331;

// In torchvision's order.
constexpr Entry kRandAugmentSpace[] = {
    {nullptr},
    {"shear_x", 0, 0.3, true},
    {"shear_y", 0, 0.3, true},
    {"translate_x", 0, kMove, true, Entry::Is::kShareOfWidth},
    {"translate_y", 0, kMove, true, Entry::Is::kShareOfHeight},
    {"rotate", 0, 30, true},
    {"brightness", 0, 0.9, true, Entry::Is::kFactor},
    {"color", 0, 0.9, true, Entry::Is::kFactor},
    {"contrast", 0, 0.9, true, Entry::Is::kFactor},
    {"sharpness", 0, 0.9, true, Entry::Is::kFactor},
    {"posterize", 0, 4, false, Entry::Is::kBits},
    {"solarize", 255, 0},
    {"auto_contrast"},
    {"equalize"},
};
constexpr Entry kTrivialSpace[] = {
    {nullptr},
    {"shear_x", 0, 0.99, true},
    {"shear_y", 0, 0.99, true},
    {"translate_x", 0, 32, true},
    {"translate_y", 0, 32, true},
    {"rotate", 0, 135, true},
    {"brightness", 0, 0.99, true, Entry::Is::kFactor},
    {"color", 0, 0.99, true, Entry::Is::kFactor},
    {"contrast", 0, 0.99, true, Entry::Is::kFactor},
    {"sharpness", 0, 0.99, true, Entry::Is::kFactor},
    {"posterize", 0, 6, false, Entry::Is::kBits},
    {"solarize", 255, 0},
    {"auto_contrast"},
    {"equalize"},
};

// torch.linspace() in float32, fused, from both ends to the middle: translations are cut to whole
// pixels, and its 15.999999 becomes 15.
double magnitude(const Entry& entry, int bin, Size size) {
  double end = entry.high;
  if (entry.is == Entry::Is::kShareOfWidth) end *= static_cast<double>(size.width);
  if (entry.is == Entry::Is::kShareOfHeight) end *= static_cast<double>(size.height);
  const auto low = static_cast<float>(entry.low), high = static_cast<float>(end);
  const float step = (high - low) / static_cast<float>(kBins - 1);
  if (bin < kBins / 2) return std::fma(step, static_cast<float>(bin), low);
  return std::fma(-step, static_cast<float>(kBins - 1 - bin), high);
}

void add_entry(const Entry& entry, int bin, bool negative, double bilinear, Size size,
               Steps& steps) {
  if (entry.name == nullptr) return;
  double value = magnitude(entry, bin, size);
  if (entry.is == Entry::Is::kBits) value = 8 - std::nearbyint(value);
  if (entry.either_sign && negative) value = -value;
  if (entry.is == Entry::Is::kFactor) value += 1;
  const Operator& op = operator_named(entry.name);
  if (op.name.starts_with("translate")) value = std::trunc(value);
  steps.push_back({.op = &op, .value = {value, op.affine != nullptr ? bilinear : 0}});
}

}  // namespace

void draw_rand_augment(const Parameters& p, Size size, SampleRandom& random, Steps& steps) {
  for (int64_t i = 0; i < static_cast<int64_t>(p[0]); ++i) {
    const Entry& entry = kRandAugmentSpace[random.below(std::ssize(kRandAugmentSpace))];
    add_entry(entry, static_cast<int>(p[1]), random.flip(0.5), p[2], size, steps);
  }
}

void draw_trivial_augment_wide(const Parameters& p, Size size, SampleRandom& random, Steps& steps) {
  const Entry& entry = kTrivialSpace[random.below(std::ssize(kTrivialSpace))];
  const auto bin = static_cast<int>(random.below(kBins));
  add_entry(entry, bin, random.flip(0.5), p[0], size, steps);
}

void draw_colour_jitter(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  constexpr const char* kNames[] = {"brightness", "contrast", "color", "hue"};
  std::array<size_t, 4> order{0, 1, 2, 3};
  for (size_t i = 3; i > 0; --i) {
    std::swap(order[i], order[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
  }
  std::array<double, 4> value{};
  for (size_t k = 0; k < 3; ++k) value[k] = random.uniform(std::max(0.0, 1 - p[k]), 1 + p[k]);
  value[3] = random.uniform(-p[3], p[3]);
  if (!random.flip(p[4])) return;
  for (const size_t k : order) {
    if (p[k] > 0) steps.push_back({.op = &operator_named(kNames[k]), .value = {value[k]}});
  }
}

// RandomErasing of torchvision: up to ten tries of an area and a ratio, then nothing.
void draw_erase(const Parameters& p, Size size, SampleRandom& random, Steps& steps) {
  if (!random.flip(p[0])) return;
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const double low = std::log(std::min(p[3], p[4])), high = std::log(std::max(p[3], p[4]));
  for (int i = 0; i < 10; ++i) {
    const double area = width * height * random.uniform(std::min(p[1], p[2]), std::max(p[1], p[2]));
    const double ratio = std::exp(random.uniform(low, high));  // height by width, as there
    const double h = std::nearbyint(std::sqrt(area * ratio));
    const double w = std::nearbyint(std::sqrt(area / ratio));
    if (!(h >= 1 && h < height && w >= 1 && w < width)) continue;
    const auto y = static_cast<double>(random.below(size.height - static_cast<int64_t>(h) + 1));
    const auto x = static_cast<double>(random.below(size.width - static_cast<int64_t>(w) + 1));
    steps.push_back({.op = &operator_named("erase"), .value = {x, y, x + w, y + h}});
    return;
  }
}

}  // namespace stretto::media::operators
