// GridSample: reads an image of one to three spatial axes at the places of a grid.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

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
    // std::floor, which would be a call.
    const double near = std::clamp(x, -0x1p40, 0x1p40);
    auto first = static_cast<int64_t>(near);
    if (static_cast<double>(first) > near) --first;
    const double t = near - static_cast<double>(first);
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

constexpr int64_t kLongestBlock = 1024;  // places: threads and interruptions come in between

// The taps of a block of places over all axes, found once for all channels: `count` taps of each
// place, one place behind the other. Each is the element `at` of a channel, or zero where that is
// negative, multiplied by `weight`. Blocks are long, so that a channel stays in the cache.
struct Block {
  static constexpr int64_t kTaps = 4096;

  int64_t count = 1;  // of the taps of a place
  int64_t at[kTaps];
  double weight[kTaps];

  // Place i from the taps of its axes, the last axis first, each of kEach.
  template <int kEach>
  void set(int64_t i, const Taps* axes, const int64_t* strides, size_t rank) {
    int64_t* const to = at + i * count;
    double* const by = weight + i * count;
    to[0] = 0;
    by[0] = 1;
    for (size_t axis = 0, done = 1; axis < rank; ++axis, done *= kEach) {
      const Taps& taps = axes[axis];
      for (size_t k = kEach; k-- > 0;) {
        const bool given = static_cast<int>(k) < taps.count;
        const double factor = given ? taps.weight[k] : 0;
        const int64_t place = taps.at[given ? k : 0];
        for (size_t t = 0; t < done; ++t) {
          by[k * done + t] = by[t] * factor;
          to[k * done + t] = place < 0 || to[t] < 0 ? -1 : to[t] + place * strides[axis];
        }
      }
    }
  }

  // No branch depends on where a place lies.
  template <typename T>
  double tap(const T* channel, int64_t t) const {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const int64_t inside = ~(at[t] >> 63);  // all bits or none
    const auto bits = std::bit_cast<Bits>(channel[at[t] & inside]);
    const auto value = std::bit_cast<T>(static_cast<Bits>(bits & static_cast<Bits>(inside)));
    return weight[t] * static_cast<double>(value);
  }

  template <typename T>
  void read(const T* channel, int64_t places, T* y) const {
    if (count == 4) {
      for (int64_t i = 0, t = 0; i < places; ++i, t += 4) {
        y[i] = static_cast<T>(tap(channel, t) + tap(channel, t + 1) + tap(channel, t + 2) +
                              tap(channel, t + 3));
      }
      return;
    }
    for (int64_t i = 0, t = 0; i < places; ++i) {
      double sum = 0;
      for (const int64_t end = t + count; t < end; ++t) sum += tap(channel, t);
      y[i] = static_cast<T>(sum);
    }
  }
};

void evaluate(Evaluation& c) {
  const Sampler sampler = sampler_of(c.attributes);
  const Shape& x = c.inputs[0].shape();
  const size_t axes = x.size() - 2;
  std::vector<Axis> spatial;  // the last first, as in the grid
  int64_t strides[3], pixels = 1;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t size = x[x.size() - 1 - i];
    spatial.emplace_back(sampler, size);
    strides[i] = pixels;
    pixels *= size;
  }
  const auto sample = [&]<typename T, typename G>() {
    const T* image = data_of<T>(c.inputs[0]);
    const G* grid = data_of<G>(c.inputs[1]);
    T* y = data_of<T>(c.make_output(0));
    const int64_t places = c.inputs[1].count() / static_cast<int64_t>(axes) / x[0];
    const int64_t each = sampler.mode == Mode::kNearest ? 1 : sampler.mode == Mode::kLinear ? 2 : 4;
    int64_t taps_of_place = 1;
    for (size_t i = 0; i < axes; ++i) taps_of_place *= each;
    const int64_t length = std::min<int64_t>(Block::kTaps / taps_of_place, kLongestBlock);
    const int64_t blocks = (places + length - 1) / length;
    parallel(c.team, x[0] * blocks, 1, [&](int64_t begin, int64_t end) {
      Block block;
      block.count = taps_of_place;
      for (int64_t at = begin; at < end; ++at) {
        const int64_t batch = at / blocks, first = at % blocks * length;
        const int64_t count = std::min(length, places - first);
        for (int64_t i = 0; i < count; ++i) {
          const G* place = grid + (batch * places + first + i) * static_cast<int64_t>(axes);
          Taps taps[3];
          for (size_t k = 0; k < axes; ++k) {
            taps[k] = spatial[k].taps(static_cast<double>(place[k]));
          }
          if (sampler.mode == Mode::kNearest) block.set<1>(i, taps, strides, axes);
          if (sampler.mode == Mode::kLinear) block.set<2>(i, taps, strides, axes);
          if (sampler.mode == Mode::kCubic) block.set<4>(i, taps, strides, axes);
        }
        for (int64_t channel = batch * x[1]; channel < (batch + 1) * x[1]; ++channel) {
          block.read(image + channel * pixels, count, y + channel * places + first);
        }
      }
    });
  };
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    with_type<kRealTypes>(c.inputs[1].dtype(),
                          [&]<typename G>() { sample.template operator()<T, G>(); });
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
