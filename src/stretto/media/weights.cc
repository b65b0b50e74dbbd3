#include "stretto/media/weights.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::media {
namespace {

constexpr double kMostWeights = 1 << 28;
constexpr int64_t kMostOutputs = 1 << 24;

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

inline double value_of(Filter filter, double x) {
  if (filter == Filter::kBox) return x > -0.5 && x <= 0.5 ? 1 : 0;
  x = std::abs(x);
  if (filter == Filter::kTriangle) return x < 1 ? 1 - x : 0;
  constexpr double kA = -0.5;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

void check(const Axis& a) {
  if (a.pixels < 1 || a.pixels > INT32_MAX || a.outputs < 1 || a.outputs > kMostOutputs ||
      !(a.begin >= 0 && a.begin < a.end && a.end <= static_cast<double>(a.pixels)) || a.low < 0 ||
      a.low >= a.high || a.high > a.pixels ||
      !(a.begin >= static_cast<double>(a.low) && a.end <= static_cast<double>(a.high))) {
    throw_invalid(
        "resample: a box from {} to {} in {} pixels, of which {} to {} may be taken, to {}",
        a.begin, a.end, a.pixels, a.low, a.high, a.outputs);
  }
}

// Pixels first .. last - 1.
struct Window {
  int64_t first, last;
};

// What one axis has in common for all of its outputs. Places are counted from the first pixel that
// may be taken: then ties of the box filter fall as they do in a picture that was cropped.
struct Scale {
  double origin, scale, stretch, support;
  double centre(int64_t output) const {
    return origin + (static_cast<double>(output) + 0.5) * scale;
  }
};

Scale scale_of(const Axis& axis, Filter filter) {
  const double scale = (axis.end - axis.begin) / static_cast<double>(axis.outputs);
  const double stretch = std::max(scale, 1.0);
  return {axis.begin - static_cast<double>(axis.low), scale, stretch, support_of(filter) * stretch};
}

// Of an output, before `reversed` is applied. At least one pixel.
inline Window window_at(const Axis& axis, const Scale& s, double centre) {
  const int64_t count = axis.high - axis.low;
  Window w{.first = std::max<int64_t>(0, static_cast<int64_t>(centre - s.support + 0.5)),
           .last = std::min(count, static_cast<int64_t>(centre + s.support + 0.5))};
  if (w.first >= w.last) {
    w.first = std::clamp<int64_t>(static_cast<int64_t>(centre), 0, count - 1);
    w.last = w.first + 1;
  }
  return {w.first + axis.low, w.last + axis.low};
}

// weight[i] of pixel w.first + i; they sum to 1.
template <Filter kFilter>
void weigh(const Window& pixels, int64_t low, const Scale& s, double centre, double* weight) {
  const Window w{pixels.first - low, pixels.last - low};
  const double shrink = 1 / s.stretch;
  const int64_t count = w.last - w.first;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = (static_cast<double>(w.first + i) - centre + 0.5) * shrink;
    weight[i] = value_of(kFilter, x);
    sum += weight[i];
  }
  if (sum == 0) {  // the filter has only zeros here: take the pixel at the centre
    weight[std::clamp<int64_t>(static_cast<int64_t>(centre) - w.first, 0, count - 1)] = sum = 1;
  }
  const double scale = 1 / sum;
  for (int64_t i = 0; i < count; ++i) weight[i] *= scale;
}

// How the samples of a component stand for pixels.
struct Sampling {
  int ratio;
  int64_t samples;
  bool smooth;  // libjpeg's triangle: a pixel takes 3/4 of its sample and 1/4 of the one beside it

  // Without a division where it can be: this is called for every weight.
  int64_t nearest(int64_t x) const {
    return std::min(ratio == 1 ? x : ratio == 2 ? x / 2 : x / ratio, samples - 1);
  }
  // The other sample of pixel x, not clamped.
  int64_t beside(int64_t x) const { return x / 2 + (x % 2 == 0 ? -1 : 1); }
};

// The samples that upsampling makes the pixels of a window from.
inline Window samples_of(const Sampling& sampling, const Window& pixels) {
  Window w{.first = sampling.nearest(pixels.first), .last = sampling.nearest(pixels.last - 1)};
  if (sampling.smooth) {
    w.first = std::clamp<int64_t>(sampling.beside(pixels.first), 0, w.first);
    w.last = std::clamp(sampling.beside(pixels.last - 1), w.last, sampling.samples - 1);
  }
  ++w.last;
  return w;
}

// Adds the weights of pixels to those of the samples, weight[0] being of sample `first`.
void add_to_samples(const Sampling& sampling, const Window& pixels, const double* of_pixels,
                    int64_t first, double* weight) {
  for (int64_t x = pixels.first; x < pixels.last; ++x) {
    weight[sampling.nearest(x) - first] += of_pixels[x - pixels.first];
  }
}

// The same for libjpeg's triangle. of_pixels[-1] to of_pixels[2 * count] are the weights of the
// pixels from 2 * first - 1 on, which are all that are made of samples first .. first + count - 1.
void mix_into_samples(const Sampling& sampling, const double* of_pixels, int64_t first,
                      int64_t count, float* weight) {
  const int64_t last = count - 1;
  for (int64_t t = 0; t < count; ++t) {
    const double* w = of_pixels + 2 * t;
    double sum = 0.75 * (w[0] + w[1]) + 0.25 * (w[-1] + w[2]);
    // What the picture's edge would take from a sample beyond it.
    if (t == 0 && first == 0) sum += 0.25 * w[0];
    if (t == last && first + count == sampling.samples) sum += 0.25 * w[1];
    weight[t] = static_cast<float>(sum);
  }
}

template <Filter kFilter>
void fill(const Axis& axis, const Scale& scale, const Sampling& sampling,
          const std::vector<Window>& windows, Taps& taps) {
  int64_t widest = 0;
  for (const Window& w : windows) widest = std::max(widest, w.last - w.first);
  const int64_t count = taps.count, room = std::max(2 * count + 2, widest);
  std::vector<double> pixel_weights(static_cast<size_t>(room));
  std::vector<double> sample_weights(static_cast<size_t>(count));
  double* const of_pixels = pixel_weights.data();
  double* const of_samples = sample_weights.data();
  for (int64_t i = 0; i < taps.outputs; ++i) {
    const Window& pixels = windows[static_cast<size_t>(i)];
    const int64_t o = axis.reversed ? taps.outputs - 1 - i : i;
    // Moved to the left where it would reach beyond what any output takes.
    int32_t& taken = taps.first[static_cast<size_t>(o)];
    taken = std::min(taken, static_cast<int32_t>(taps.end - count));
    const int64_t first = taken;
    float* const weight = taps.weight.data() + o * count;
    if (sampling.smooth) {
      for (int64_t k = 0; k < 2 * count + 2; ++k) of_pixels[k] = 0;
      weigh<kFilter>(pixels, axis.low, scale, scale.centre(i),
                     of_pixels + (pixels.first - (2 * first - 1)));
      mix_into_samples(sampling, of_pixels + 1, first, count, weight);
      continue;
    }
    for (int64_t t = 0; t < count; ++t) of_samples[t] = 0;
    if (sampling.ratio == 1) {
      weigh<kFilter>(pixels, axis.low, scale, scale.centre(i), of_samples + (pixels.first - first));
    } else {
      weigh<kFilter>(pixels, axis.low, scale, scale.centre(i), of_pixels);
      add_to_samples(sampling, pixels, of_pixels, first, of_samples);
    }
    for (int64_t t = 0; t < count; ++t) weight[t] = static_cast<float>(of_samples[t]);
  }
}

}  // namespace

PixelRange pixels_taken(const Axis& axis, Filter filter) {
  check(axis);
  const Scale scale = scale_of(axis, filter);
  // Windows move to the right with their outputs.
  return {window_at(axis, scale, scale.centre(0)).first,
          window_at(axis, scale, scale.centre(axis.outputs - 1)).last};
}

Taps make_taps(const Axis& axis, Filter filter) { return make_taps(axis, filter, 1, axis.pixels); }

Taps make_taps(const Axis& axis, Filter filter, int ratio, int64_t samples) {
  check(axis);
  if (ratio < 1 || samples != (axis.pixels + ratio - 1) / ratio) {
    throw_invalid("resample: {} samples for {} pixels at 1/{}", samples, axis.pixels, ratio);
  }
  const Scale scale = scale_of(axis, filter);
  // libjpeg repeats the samples of components with at most two.
  const Sampling sampling{.ratio = ratio, .samples = samples, .smooth = ratio == 2 && samples > 2};
  std::vector<Window> windows(static_cast<size_t>(axis.outputs));
  Taps taps{.outputs = axis.outputs, .begin = samples};
  taps.first.resize(windows.size());
  for (int64_t i = 0; i < axis.outputs; ++i) {
    Window& w = windows[static_cast<size_t>(i)];
    w = window_at(axis, scale, scale.centre(i));
    const Window s = samples_of(sampling, w);
    const int64_t o = axis.reversed ? axis.outputs - 1 - i : i;
    taps.first[static_cast<size_t>(o)] = static_cast<int32_t>(s.first);
    taps.begin = std::min(taps.begin, s.first);
    taps.end = std::max(taps.end, s.last);
    taps.count = std::max(taps.count, s.last - s.first);
  }
  if (static_cast<double>(taps.outputs) * static_cast<double>(taps.count) > kMostWeights) {
    throw_invalid("resample: {} pixels to {} outputs need {} weights each, which is too many",
                  axis.pixels, axis.outputs, taps.count);
  }
  taps.weight.resize(static_cast<size_t>(taps.outputs * taps.count));
  switch (filter) {
    case Filter::kBox:
      fill<Filter::kBox>(axis, scale, sampling, windows, taps);
      break;
    case Filter::kTriangle:
      fill<Filter::kTriangle>(axis, scale, sampling, windows, taps);
      break;
    case Filter::kCubic:
      fill<Filter::kCubic>(axis, scale, sampling, windows, taps);
      break;
  }
  return taps;
}

}  // namespace stretto::media
