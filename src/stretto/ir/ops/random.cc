// RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike. Numbers are a function of a
// stream and their place (base/random.h), drawn in float32, or in float64 where the attribute dtype
// says so. With the attribute seed every evaluation draws the same.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "stretto/base/random.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kLike[] = {{"input"}};
constexpr Port kOutputs[] = {{"output", kFloatTypes}};

// `node` tells nodes apart whose draws are repeated; the importer numbers them.
constexpr AttributeSpec kNormalAttributes[] = {
    {"dtype", AttributeKind::kString}, {"mean", AttributeKind::kFloat},
    {"node", AttributeKind::kInt},     {"scale", AttributeKind::kFloat},
    {"seed", AttributeKind::kFloat},   {"shape", AttributeKind::kInts, true}};
constexpr AttributeSpec kNormalLikeAttributes[] = {{"dtype", AttributeKind::kString},
                                                   {"mean", AttributeKind::kFloat},
                                                   {"node", AttributeKind::kInt},
                                                   {"scale", AttributeKind::kFloat},
                                                   {"seed", AttributeKind::kFloat}};
constexpr AttributeSpec kUniformAttributes[] = {
    {"dtype", AttributeKind::kString}, {"high", AttributeKind::kFloat},
    {"low", AttributeKind::kFloat},    {"node", AttributeKind::kInt},
    {"seed", AttributeKind::kFloat},   {"shape", AttributeKind::kInts, true}};
constexpr AttributeSpec kUniformLikeAttributes[] = {{"dtype", AttributeKind::kString},
                                                    {"high", AttributeKind::kFloat},
                                                    {"low", AttributeKind::kFloat},
                                                    {"node", AttributeKind::kInt},
                                                    {"seed", AttributeKind::kFloat}};

DType declared_dtype(const Attributes& attributes, DType fallback) {
  const std::string name = attributes.text("dtype", "");
  const DType dtype = name.empty() ? fallback : parse_dtype(name);
  if ((kFloatTypes & type_bit(dtype)) == 0) {
    throw_invalid("dtype: expected float32, float64, float16 or bfloat16, got {}",
                  dtype_name(dtype));
  }
  return dtype;
}

void infer_shaped(Inference& c) {
  Shape shape = c.attributes().integers("shape", {});
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; })) {
    throw_invalid("shape: expected sizes of 0 and more, got {}", shape_text(shape));
  }
  c.set_output(0, declared_dtype(c.attributes(), DType::kFloat32), std::move(shape));
}

void infer_like(Inference& c) {
  c.set_output(0, declared_dtype(c.attributes(), c.dtype(0)), c.shape(0));
}

RandomStream stream_of(const Attributes& attributes) {
  if (attributes.has("seed")) {
    return random_stream_of(std::bit_cast<uint64_t>(attributes.number("seed", 0)));
  }
  if (!RepeatedDraws::alive()) return next_random_stream();
  return random_stream_of(static_cast<uint64_t>(attributes.integer("node", 0)));
}

using Words = std::array<uint32_t, 4>;

// From 0, which does not occur where `positive`, to 1, which occurs only there.
template <typename T>
T unit(const Words& words, int i, bool positive);
template <>
float unit<float>(const Words& words, int i, bool positive) {
  // Small numbers keep all of their digits: normal numbers then reach 6.6 instead of 5.8.
  if (positive) return (static_cast<float>(words[i]) + 1) * 0x1p-32f;
  return static_cast<float>(words[i] >> 8) * 0x1p-24f;
}
template <>
double unit<double>(const Words& words, int i, bool positive) {
  const uint64_t bits = (static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1]) >> 11;
  return static_cast<double>(bits + (positive ? 1 : 0)) * 0x1p-53;
}

// How many numbers a place of a stream is good for.
template <typename T>
constexpr int kNumbers = 16 / sizeof(T);

template <typename T>
struct Uniform {
  T low, high;

  std::array<T, kNumbers<T>> operator()(const Words& words) const {
    std::array<T, kNumbers<T>> numbers;
    for (int i = 0; i < kNumbers<T>; ++i) {
      const T value = low + unit<T>(words, i, false) * (high - low);
      // Rounding may reach the end, which does not belong to the range.
      numbers[i] = value == high && low != high ? std::nextafter(high, low) : value;
    }
    return numbers;
  }
};

// By Box and Muller.
template <typename T>
struct Normal {
  T mean, scale;

  std::array<T, kNumbers<T>> operator()(const Words& words) const {
    std::array<T, kNumbers<T>> numbers;
    for (int i = 0; i < kNumbers<T>; i += 2) {
      const T radius = std::sqrt(-2 * std::log(unit<T>(words, i, true)));
      const T angle = 2 * std::numbers::pi_v<T> * unit<T>(words, i + 1, false);
      numbers[i] = mean + scale * radius * std::cos(angle);
      numbers[i + 1] = mean + scale * radius * std::sin(angle);
    }
    return numbers;
  }
};

template <typename T, typename Distribution>
Tensor drawn(Evaluation& c, const Distribution& distribution) {
  const RandomStream stream = stream_of(c.attributes);
  Tensor out(kDTypeOf<T>, c.output_shapes[0]);
  T* y = data_of<T>(out);
  const int64_t count = out.count(), places = (count + kNumbers<T> - 1) / kNumbers<T>;
  constexpr int64_t kGrain = 512;
  parallel(c.team, places, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t place = begin; place < end; ++place) {
      const auto numbers = distribution(stream(static_cast<uint64_t>(place)));
      const int64_t first = place * kNumbers<T>;
      std::copy_n(numbers.begin(), std::min<int64_t>(kNumbers<T>, count - first), y + first);
    }
  });
  return out;
}

// `c.output_dtypes` cannot say what to draw in: a reference run widens it.
template <template <typename> typename Distribution>
void evaluate(Evaluation& c, double first, double second) {
  const bool wide = c.attributes.text("dtype", "") == dtype_name(DType::kFloat64);
  Tensor numbers = wide ? drawn<double>(c, Distribution<double>{first, second})
                        : drawn<float>(c, Distribution<float>{static_cast<float>(first),
                                                              static_cast<float>(second)});
  const DType dtype = c.output_dtypes[0];
  c.outputs[0] = numbers.dtype() == dtype ? std::move(numbers) : numbers.converted(dtype);
}

void evaluate_normal(Evaluation& c) {
  evaluate<Normal>(c, c.attributes.number("mean", 0), c.attributes.number("scale", 1));
}

void evaluate_uniform(Evaluation& c) {
  evaluate<Uniform>(c, c.attributes.number("low", 0), c.attributes.number("high", 1));
}

constexpr Operator row(std::string_view name, std::span<const Port> inputs,
                       std::span<const AttributeSpec> attributes, void (*infer)(Inference&),
                       void (*evaluate)(Evaluation&)) {
  return {.name = name,
          .inputs = inputs,
          .outputs = kOutputs,
          .attributes = attributes,
          .infer = infer,
          .evaluate = evaluate,
          .random = true};
}

constexpr Operator kRows[] = {
    row("RandomNormal", {}, kNormalAttributes, infer_shaped, evaluate_normal),
    row("RandomNormalLike", kLike, kNormalLikeAttributes, infer_like, evaluate_normal),
    row("RandomUniform", {}, kUniformAttributes, infer_shaped, evaluate_uniform),
    row("RandomUniformLike", kLike, kUniformLikeAttributes, infer_like, evaluate_uniform),
};

}  // namespace

std::span<const Operator> random_generators() { return kRows; }

}  // namespace stretto::ir::ops
