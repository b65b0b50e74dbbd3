#include "stretto/media/operators/mix.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "stretto/base/error.h"
#include "stretto/media/elements.h"

namespace stretto::media::operators {
namespace {

constexpr uint32_t kMixStream = 254;  // above those of rows

double normal(SampleRandom& random) {  // Box and Muller
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  return radius * std::cos(2 * std::numbers::pi * random.unit());
}

// The logarithm of a Gamma(shape, 1): of a small shape the number itself is below the least double.
// Marsaglia and Tsang, "A simple method for generating gamma variables".
double log_gamma_variate(double shape, SampleRandom& random) {
  if (shape < 1) {
    const double log_u = std::log(1 - random.unit());
    return log_gamma_variate(shape + 1, random) + log_u / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random), t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    if (std::log(1 - random.unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v);
    }
  }
}

double beta_variate(double alpha, SampleRandom& random) {
  const double a = log_gamma_variate(alpha, random), b = log_gamma_variate(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

// The box of torchvision's CutMix: a share 1 - lambda of the picture around a pixel, clipped.
Region cut_box(double lambda, Size size, SampleRandom& random) {
  const int64_t x = random.below(size.width), y = random.below(size.height);
  const double half = 0.5 * std::sqrt(1 - lambda);
  const auto w = static_cast<int64_t>(half * static_cast<double>(size.width));
  const auto h = static_cast<int64_t>(half * static_cast<double>(size.height));
  return {std::max<int64_t>(x - w, 0), std::max<int64_t>(y - h, 0), std::min(x + w, size.width),
          std::min(y + h, size.height)};
}

template <typename T, typename Load, typename Store>
void mix_up(double lambda, T* a, T* b, int64_t count, const Load& load, const Store& store) {
  const auto mine = static_cast<float>(lambda), theirs = static_cast<float>(1 - lambda);
  for (int64_t i = 0; i < count; ++i) {
    const float x = load(a[i]), y = load(b[i]);
    a[i] = store(theirs * y + mine * x);
    b[i] = store(theirs * x + mine * y);
  }
}

void mix_up(const MixPlan& plan, void* a, void* b, DType dtype, int64_t count) {
  const auto run = [&]<typename T>(T*, const auto& load, const auto& store) {
    mix_up(plan.lambda, static_cast<T*>(a), static_cast<T*>(b), count, load, store);
  };
  const auto same = [](float v) { return v; };
  switch (dtype) {
    case DType::kFloat32:
      return run(static_cast<float*>(nullptr), same, same);
    case DType::kFloat16:
      return run(static_cast<uint16_t*>(nullptr), half_to_float, float_to_half);
    case DType::kBFloat16:
      return run(static_cast<uint16_t*>(nullptr), bfloat16_to_float, float_to_bfloat16);
    default:
      return run(
          static_cast<uint8_t*>(nullptr), [](uint8_t v) { return static_cast<float>(v); },
          [](float v) { return static_cast<uint8_t>(v + 0.5f); });
  }
}

void swap_box(const Region& box, void* a, void* b, size_t element, Size size, bool planar) {
  const int64_t step = planar ? 1 : 3, planes = planar ? 3 : 1;
  for (int64_t k = 0; k < planes; ++k) {
    for (int64_t y = box.y0; y < box.y1; ++y) {
      const int64_t row = (k * size.height + y) * size.width * step;
      const size_t begin = static_cast<size_t>(row + box.x0 * step) * element;
      const size_t bytes = static_cast<size_t>(box.width() * step) * element;
      std::byte* const mine = static_cast<std::byte*>(a) + begin;
      std::swap_ranges(mine, mine + bytes, static_cast<std::byte*>(b) + begin);
    }
  }
}

}  // namespace

Mixing mixing_of(const Operators& operators) {
  Mixing mixing;
  for (const Configured& c : operators) {
    if (c.op->draw != nullptr) continue;
    if (c.repeat > 0) throw_invalid("operators: {}: at most once", c.op->name);
    const bool up = c.op->name == "mixup";
    (up ? mixing.mixup_alpha : mixing.cutmix_alpha) = c.parameters[0];
    (up ? mixing.mixup : mixing.cutmix) = c.parameters[1];
  }
  const double sum = mixing.mixup + mixing.cutmix;
  if (sum > 1) {
    mixing.mixup /= sum;
    mixing.cutmix /= sum;
  }
  return mixing;
}

MixPlan draw_mix(const Mixing& mixing, Size size, const SampleKey& key) {
  if (size.width < 1 || size.height < 1) {
    throw_invalid("mix: pictures of {}x{}", size.width, size.height);
  }
  SampleRandom random(key.seed, key.epoch, key.sample, static_cast<Draw>(kMixStream));
  const double which = random.unit();
  MixPlan plan;
  if (which >= mixing.mixup + mixing.cutmix) return plan;
  plan.mix = which < mixing.mixup ? Mix::kMixUp : Mix::kCutMix;
  const bool up = plan.mix == Mix::kMixUp;
  plan.lambda = beta_variate(up ? mixing.mixup_alpha : mixing.cutmix_alpha, random);
  if (up) return plan;
  plan.box = cut_box(plan.lambda, size, random);
  plan.lambda = 1 - static_cast<double>(plan.box.width() * plan.box.height()) /
                        static_cast<double>(size.width * size.height);
  return plan;
}

void apply_mix(const MixPlan& plan, void* a, void* b, DType dtype, Size size, bool planar) {
  if (a == nullptr || b == nullptr || size.width < 1 || size.height < 1) {
    throw_invalid("mix: pictures of {}x{}{}", size.width, size.height,
                  a == nullptr || b == nullptr ? " without memory" : "");
  }
  check_element_type("mix", dtype);
  if (plan.mix == Mix::kNone) return;
  if (plan.mix == Mix::kMixUp) return mix_up(plan, a, b, dtype, 3 * size.width * size.height);
  const Region& box = plan.box;
  if (!(box.x0 >= 0 && box.x0 <= box.x1 && box.x1 <= size.width && box.y0 >= 0 &&
        box.y0 <= box.y1 && box.y1 <= size.height)) {
    throw_invalid("mix: the box from ({}, {}) to ({}, {}) is not inside {}x{}", box.x0, box.y0,
                  box.x1, box.y1, size.width, size.height);
  }
  swap_box(box, a, b, dtype_bytes(dtype), size, planar);
}

}  // namespace stretto::media::operators
