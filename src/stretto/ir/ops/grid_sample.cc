// GridSample: reads an image of one to three spatial axes at the places of a grid.
#include <algorithm>
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}, {"grid", kRealTypes}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"align_corners", AttributeKind::kInt},
                                         {"mode", AttributeKind::kString},
                                         {"padding_mode", AttributeKind::kString}};

enum class Mode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

struct Sampler {
  Mode mode;
  Padding padding;
  bool align_corners;
};

Sampler sampler_of(const Attributes& attributes) {
  const std::string mode = attributes.text("mode", "linear");
  const std::string padding = attributes.text("padding_mode", "zeros");
  if (mode != "linear" && mode != "nearest" && mode != "cubic") {
    throw_invalid("mode: expected linear, nearest or cubic, got {}", mode);
  }
  if (padding != "zeros" && padding != "border" && padding != "reflection") {
    throw_invalid("padding_mode: expected zeros, border or reflection, got {}", padding);
  }
  return {.mode = mode == "linear"    ? Mode::kLinear
                  : mode == "nearest" ? Mode::kNearest
                                      : Mode::kCubic,
          .padding = padding == "zeros"    ? Padding::kZeros
                     : padding == "border" ? Padding::kBorder
                                           : Padding::kReflection,
          .align_corners = attributes.integer("align_corners", 0) != 0};
}

void infer(Inference& c) {
  sampler_of(c.attributes());
  const Shape &x = c.shape(0), &grid = c.shape(1);
  const auto axes = static_cast<int64_t>(x.size()) - 2;
  if (axes < 1 || axes > 3) {
    throw_invalid("X: expected shape [batch, channels, 1 to 3 spatial axes], got {}",
                  shape_text(x));
  }
  if (grid.size() != x.size() || grid[0] != x[0] || grid.back() != axes) {
    throw_invalid("grid: expected shape [{}, {} spatial axes, {}], got {}", x[0], axes, axes,
                  shape_text(grid));
  }
  Shape y{x[0], x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  if (element_count(x) == 0 && element_count(y) != 0) {
    throw_invalid("X: shape {} has nothing to read", shape_text(x));
  }
  c.set_output(0, c.dtype(0), std::move(y));
}

// Mirrored at the borders until it lies between them.
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (x >= low && x <= high) return x;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x - high;
  const double turns = std::trunc(distance / range), rest = distance - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

// One axis of a place: the elements that are read, -1 for zero, and their weights.
struct Taps {
  int count = 1;
  int64_t at[4];
  double weight[4];
};

class Axis {
 public:
  Axis(const Sampler& sampler, int64_t size)
      : sampler_(sampler),
        size_(size),
        low_(sampler.align_corners ? 0 : -0.5),
        high_(static_cast<double>(size) - (sampler.align_corners ? 1 : 0.5)) {}

  Taps taps(double normalized) const {
    const auto size = static_cast<double>(size_);
    double x = sampler_.align_corners ? (normalized + 1) / 2 * (size - 1)
                                      : ((normalized + 1) * size - 1) / 2;
    if (sampler_.mode == Mode::kNearest) x = std::nearbyint(x);
    // As PyTorch: for linear and nearest the place itself is moved, for cubic its neighbours are.
    if (sampler_.mode != Mode::kCubic && sampler_.padding != Padding::kZeros) {
      x = sampler_.padding == Padding::kBorder ? std::clamp(x, 0.0, size - 1)
                                               : reflected(x, low_, high_);
    }
    Taps taps;
    if (!std::isfinite(x)) {  // of no element; NaN shows in the result
      taps.at[0] = 0;
      taps.weight[0] = std::numeric_limits<double>::quiet_NaN();
      return taps;
    }
    const double floor = std::floor(x), t = x - floor;
    const auto first = static_cast<int64_t>(std::clamp(floor, -0x1p40, 0x1p40));
    if (sampler_.mode == Mode::kNearest) {
      taps.at[0] = element(first);
      taps.weight[0] = 1;
    } else if (sampler_.mode == Mode::kLinear) {
      taps.count = 2;
      for (int i = 0; i < 2; ++i) taps.at[i] = element(first + i);
      taps.weight[0] = 1 - t;
      taps.weight[1] = t;
    } else {
      taps.count = 4;
      for (int i = 0; i < 4; ++i) {
        taps.at[i] = element(first - 1 + i);
        taps.weight[i] = cubic(std::fabs(t - (i - 1)));
      }
    }
    return taps;
  }

 private:
  // Keys' kernel, a = -0.75.
  static double cubic(double d) {
    constexpr double a = -0.75;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  }

  int64_t element(int64_t i) const {
    if (i >= 0 && i < size_) return i;
    if (sampler_.padding == Padding::kZeros) return -1;
    if (sampler_.padding == Padding::kBorder) return std::clamp<int64_t>(i, 0, size_ - 1);
    const double x = std::trunc(reflected(static_cast<double>(i), low_, high_));
    return std::clamp<int64_t>(static_cast<int64_t>(x), 0, size_ - 1);
  }

  Sampler sampler_;
  int64_t size_;
  double low_, high_;
};

// The weighted sum over the taps of the axes from `axis` on.
template <typename T>
double read(const T* image, const Shape& x, std::span<const Taps> taps, size_t axis, int64_t at) {
  if (axis == taps.size()) return static_cast<double>(image[at]);
  double sum = 0;
  for (int i = 0; i < taps[axis].count; ++i) {
    if (taps[axis].at[i] < 0) continue;
    sum +=
        taps[axis].weight[i] * read(image, x, taps, axis + 1, at * x[2 + axis] + taps[axis].at[i]);
  }
  return sum;
}

void evaluate(Evaluation& c) {
  const Sampler sampler = sampler_of(c.attributes);
  const Shape& x = c.inputs[0].shape();
  const size_t axes = x.size() - 2;
  std::vector<Axis> spatial;
  for (size_t i = 0; i < axes; ++i) spatial.emplace_back(sampler, x[2 + i]);
  const std::vector<double> grid = c.inputs[1].as_doubles();
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* image = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    const int64_t places = static_cast<int64_t>(grid.size() / axes) / x[0];
    const int64_t pixels = element_count(std::span(x).subspan(2));
    parallel(c.team, x[0] * places, 64, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        Taps taps[3];
        for (size_t i = 0; i < axes; ++i) {
          taps[i] = spatial[i].taps(grid[static_cast<size_t>(at) * axes + axes - 1 - i]);
        }
        for (int64_t channel = 0; channel < x[1]; ++channel) {
          const int64_t plane = at / places * x[1] + channel;
          y[plane * places + at % places] = static_cast<T>(
              read(image + plane * pixels, x, std::span<const Taps>(taps, axes), 0, 0));
        }
      }
    });
  });
}

}  // namespace

const Operator kGridSample{.name = "GridSample",
                           .inputs = kInputs,
                           .outputs = kOutputs,
                           .attributes = kAttributes,
                           .infer = infer,
                           .evaluate = evaluate};

}  // namespace stretto::ir::ops
