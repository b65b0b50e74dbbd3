#include "stretto/media/weights.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::media {
namespace {

constexpr double kMostWeights = 1 << 28;

double support_of(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return 0.5;
    case Filter::kTriangle:
      return 1;
    case Filter::kCubic:
      return 2;
  }
  return 1;
}

double value_of(Filter filter, double x) {
  if (filter == Filter::kBox) return x > -0.5 && x <= 0.5 ? 1 : 0;
  x = std::abs(x);
  if (filter == Filter::kTriangle) return x < 1 ? 1 - x : 0;
  constexpr double kA = -0.5;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

void check(const Axis& a) {
  if (a.pixels < 1 || a.pixels > INT32_MAX || a.outputs < 1 || a.outputs > INT32_MAX ||
      !(a.begin >= 0 && a.begin < a.end && a.end <= static_cast<double>(a.pixels)) || a.low < 0 ||
      a.low >= a.high || a.high > a.pixels ||
      !(a.begin >= static_cast<double>(a.low) && a.end <= static_cast<double>(a.high))) {
    throw_invalid(
        "resample: a box from {} to {} in {} pixels, of which {} to {} may be taken, to {}",
        a.begin, a.end, a.pixels, a.low, a.high, a.outputs);
  }
}

struct Window {
  int64_t first = 0;
  std::vector<double> weight;
};

// The pixels that output o takes, before `reversed` is applied.
void window(const Axis& axis, Filter filter, int64_t o, Window& out) {
  const double scale = (axis.end - axis.begin) / static_cast<double>(axis.outputs);
  const double stretch = std::max(scale, 1.0), support = support_of(filter) * stretch;
  const double centre = axis.begin + (static_cast<double>(o) + 0.5) * scale;
  const int64_t first = std::max(axis.low, static_cast<int64_t>(centre - support + 0.5));
  const int64_t last = std::min(axis.high, static_cast<int64_t>(centre + support + 0.5));
  out.first = first;
  out.weight.clear();
  double sum = 0;
  for (int64_t x = first; x < last; ++x) {
    const double w = value_of(filter, (static_cast<double>(x) - centre + 0.5) / stretch);
    out.weight.push_back(w);
    sum += w;
  }
  if (sum == 0) {  // the filter has only zeros here, or no pixel at all: take the one at the centre
    out.first = std::clamp(static_cast<int64_t>(centre), axis.low, axis.high - 1);
    out.weight.assign(1, 1.0);
    return;
  }
  for (double& w : out.weight) w /= sum;
}

// The window on samples whose upsampling gives the pixels of `from`.
void on_samples(const Window& from, int ratio, int64_t samples, Window& to) {
  const auto last_pixel = from.first + static_cast<int64_t>(from.weight.size()) - 1;
  // libjpeg's triangle reaches one sample to both sides, and needs more than two of them.
  const int64_t reach = ratio == 2 && samples > 2 ? 1 : 0;
  to.first = std::clamp<int64_t>(from.first / ratio - reach, 0, samples - 1);
  const int64_t last = std::clamp<int64_t>(last_pixel / ratio + reach, 0, samples - 1);
  to.weight.assign(static_cast<size_t>(last - to.first + 1), 0.0);
  for (size_t i = 0; i < from.weight.size(); ++i) {
    const int64_t x = from.first + static_cast<int64_t>(i);
    const int64_t sample = std::min(x / ratio, samples - 1);
    const auto add = [&](int64_t s, double w) {
      to.weight[static_cast<size_t>(std::clamp<int64_t>(s, 0, samples - 1) - to.first)] += w;
    };
    if (reach == 0) {
      add(sample, from.weight[i]);
    } else {
      add(sample, 0.75 * from.weight[i]);
      add(x % 2 == 0 ? sample - 1 : sample + 1, 0.25 * from.weight[i]);
    }
  }
}

// Weights of 0 at the sides cost time and nothing else.
void trim(Window& w) {
  while (w.weight.size() > 1 && w.weight.back() == 0) w.weight.pop_back();
  size_t zeros = 0;
  while (zeros + 1 < w.weight.size() && w.weight[zeros] == 0) ++zeros;
  w.weight.erase(w.weight.begin(), w.weight.begin() + static_cast<ptrdiff_t>(zeros));
  w.first += static_cast<int64_t>(zeros);
}

}  // namespace

int64_t Taps::begin() const { return *std::min_element(first.begin(), first.end()); }

int64_t Taps::end() const {
  int64_t end = 0;
  for (size_t o = 0; o < first.size(); ++o) end = std::max<int64_t>(end, first[o] + count[o]);
  return end;
}

Taps make_taps(const Axis& axis, Filter filter) { return make_taps(axis, filter, 1, axis.pixels); }

Taps make_taps(const Axis& axis, Filter filter, int ratio, int64_t samples) {
  check(axis);
  if (ratio < 1 || samples != (axis.pixels + ratio - 1) / ratio) {
    throw_invalid("resample: {} samples for {} pixels at 1/{}", samples, axis.pixels, ratio);
  }
  const double scale = (axis.end - axis.begin) / static_cast<double>(axis.outputs);
  const double reach = 2 * support_of(filter) * std::max(scale, 1.0) + 2;
  const auto most = static_cast<int64_t>(std::min(reach, static_cast<double>(axis.pixels)));
  Taps taps{.outputs = axis.outputs, .stride = ratio == 1 ? most : most / ratio + 4};
  if (static_cast<double>(taps.outputs) * static_cast<double>(taps.stride) > kMostWeights) {
    throw_invalid("resample: {} pixels to {} outputs need {} weights each, which is too many",
                  axis.pixels, axis.outputs, taps.stride);
  }
  taps.first.resize(static_cast<size_t>(taps.outputs));
  taps.count.resize(static_cast<size_t>(taps.outputs));
  taps.weight.assign(static_cast<size_t>(taps.outputs * taps.stride), 0.0f);
  Window pixels, chroma;
  for (int64_t i = 0; i < taps.outputs; ++i) {
    window(axis, filter, i, pixels);
    if (ratio > 1) on_samples(pixels, ratio, samples, chroma);
    Window& w = ratio > 1 ? chroma : pixels;
    trim(w);
    STRETTO_CHECK(static_cast<int64_t>(w.weight.size()) <= taps.stride,
                  "resample: {} taps in a table of {}", w.weight.size(), taps.stride);
    const int64_t o = axis.reversed ? taps.outputs - 1 - i : i;
    taps.first[static_cast<size_t>(o)] = static_cast<int32_t>(w.first);
    taps.count[static_cast<size_t>(o)] = static_cast<int32_t>(w.weight.size());
    std::transform(w.weight.begin(), w.weight.end(), taps.weight.begin() + o * taps.stride,
                   [](double x) { return static_cast<float>(x); });
  }
  return taps;
}

}  // namespace stretto::media
