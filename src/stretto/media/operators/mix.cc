#include "stretto/media/operators/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "stretto/base/error.h"

namespace stretto::media::operators {
namespace {

constexpr uint32_t kMixStream = 254, kCutStream = 255;  // above those of rows

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

// One sample takes from its partner, whose values are those of before.
void mix_one(const MixPlan& plan, float* own, const float* partner, Size size, bool planar) {
  if (plan.mix == Mix::kMixUp) {
    const auto mine = static_cast<float>(plan.lambda);
    const auto theirs = static_cast<float>(1 - plan.lambda);
    for (int64_t i = 0; i < 3 * size.width * size.height; ++i) {
      own[i] = mine * own[i] + theirs * partner[i];
    }
    return;
  }
  const int64_t step = planar ? 1 : 3, planes = planar ? 3 : 1;
  for (int64_t k = 0; k < planes; ++k) {
    for (int64_t y = plan.box.y0; y < plan.box.y1; ++y) {
      const int64_t row = (k * size.height + y) * size.width * step;
      std::copy(partner + row + plan.box.x0 * step, partner + row + plan.box.x1 * step,
                own + row + plan.box.x0 * step);
    }
  }
}

}  // namespace

MixPlan draw_mix(Mix mix, double alpha, int64_t count, Size size, const SampleKey& key) {
  if (!(alpha >= 1e-3 && alpha <= 1e3)) {
    throw_invalid("mix: expected an alpha from 0.001 to 1000, got {}", alpha);
  }
  if (count < 1 || size.width < 1 || size.height < 1) {
    throw_invalid("mix: {} pictures of {}x{}", count, size.width, size.height);
  }
  SampleRandom random(key.seed, key.epoch, key.sample,
                      static_cast<Draw>(mix == Mix::kMixUp ? kMixStream : kCutStream));
  MixPlan plan{.mix = mix, .partner = std::vector<int64_t>(static_cast<size_t>(count))};
  std::iota(plan.partner.begin(), plan.partner.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(plan.partner[static_cast<size_t>(i)],
              plan.partner[static_cast<size_t>(random.below(i + 1))]);
  }
  plan.lambda = beta_variate(alpha, random);
  if (mix == Mix::kCutMix) {
    plan.box = cut_box(plan.lambda, size, random);
    plan.lambda = 1 - static_cast<double>(plan.box.width() * plan.box.height()) /
                          static_cast<double>(size.width * size.height);
  }
  return plan;
}

void apply_mix(const MixPlan& plan, float* batch, Size size, bool planar) {
  if (batch == nullptr || size.width < 1 || size.height < 1) {
    throw_invalid("mix: pictures of {}x{}{}", size.width, size.height,
                  batch == nullptr ? " without memory" : "");
  }
  const auto count = std::ssize(plan.partner);
  const Region& box = plan.box;
  if (plan.mix == Mix::kCutMix && !(box.x0 >= 0 && box.x0 <= box.x1 && box.x1 <= size.width &&
                                    box.y0 >= 0 && box.y0 <= box.y1 && box.y1 <= size.height)) {
    throw_invalid("mix: the box from ({}, {}) to ({}, {}) is not inside {}x{}", box.x0, box.y0,
                  box.x1, box.y1, size.width, size.height);
  }
  const int64_t elements = 3 * size.width * size.height;
  std::vector<bool> done(static_cast<size_t>(count));
  for (const int64_t p : plan.partner) {
    if (p < 0 || p >= count || done[static_cast<size_t>(p)]) {
      throw_invalid("mix: the partners are no permutation of {} pictures", count);
    }
    done[static_cast<size_t>(p)] = true;
  }
  done.assign(done.size(), false);
  std::vector<float> first(static_cast<size_t>(elements));
  // Along each cycle of partners: who takes last takes from the first one as it was.
  for (int64_t begin = 0; begin < count; ++begin) {
    if (done[static_cast<size_t>(begin)]) continue;
    if (plan.partner[static_cast<size_t>(begin)] == begin) continue;  // mixed with itself
    std::copy_n(batch + begin * elements, elements, first.data());
    for (int64_t i = begin;;) {
      done[static_cast<size_t>(i)] = true;
      const int64_t next = plan.partner[static_cast<size_t>(i)];
      mix_one(plan, batch + i * elements, next == begin ? first.data() : batch + next * elements,
              size, planar);
      if (next == begin) break;
      i = next;
    }
  }
}

}  // namespace stretto::media::operators
