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

// Numbers are made by blocks, in loops over places that the compiler turns into vector
// instructions: number k * kPlaces + j of a block is made of word k of place j.
constexpr int kPlaces = 64;
using Words = uint32_t[4][kPlaces];

template <typename T>
constexpr int kNumbers = kPlaces * 16 / sizeof(T);

// The logarithm of a positive number that is no denormal one, to a unit or two in the last place
// (Cephes, logf).
inline float log_of(float x) {
  // x is 2^exponent times a number from the root of 1/2 to that of 2.
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t power = (bits - 0x3F3504F3) >> 23;
  const float m = std::bit_cast<float>(bits - power * (1 << 23)) - 1;
  const auto exponent = static_cast<float>(power);
  float sum = 7.0376836292e-2f * m - 1.1514610310e-1f;
  sum = sum * m + 1.1676998740e-1f;
  sum = sum * m - 1.2420140846e-1f;
  sum = sum * m + 1.4249322787e-1f;
  sum = sum * m - 1.6668057665e-1f;
  sum = sum * m + 2.0000714765e-1f;
  sum = sum * m - 2.4999993993e-1f;
  sum = sum * m + 3.3333331174e-1f;
  const float square = m * m;
  sum = sum * m * square - 2.12194440e-4f * exponent - 0.5f * square;
  return m + sum + 0.693359375f * exponent;
}

struct Direction {
  float cosine, sine;
};

// Of an angle in turns, from 0 to 1 (Cephes, sinf and cosf).
inline Direction direction_of(float turns) {
  const auto quarter = static_cast<int32_t>(4 * turns + 0.5f);
  const float rest = (4 * turns - static_cast<float>(quarter)) * (std::numbers::pi_v<float> / 2);
  const float z = rest * rest;
  const float sine =
      ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * rest + rest;
  const float cosine =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
      0.5f * z + 1;
  // In odd quarters they change places, and in half of the quarters their sign; without branches,
  // so that vectors can do it.
  const auto c = std::bit_cast<uint32_t>(cosine), s = std::bit_cast<uint32_t>(sine);
  const auto q = static_cast<uint32_t>(quarter), changed = (c ^ s) & (0 - (q & 1));
  return {std::bit_cast<float>((c ^ changed) ^ ((q + 1) & 2) << 30),
          std::bit_cast<float>((s ^ changed) ^ (q & 2) << 30)};
}

// From 0 on, below 1.
inline float unit(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}
inline double unit(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}
// Above 0. Small ones keep all of their digits, so that normal numbers reach 6.5.
inline float positive_unit(uint32_t word) {
  return (static_cast<float>(static_cast<int32_t>(word >> 1)) + 1) * 0x1p-31f;
}

template <typename T>
struct Uniform {
  T low, high;

  void operator()(const Words& words, T* numbers) const {
    // Rounding may reach the end, which does not belong to the range.
    const T last = low == high ? high : std::nextafter(high, low);
    const auto placed = [&](T share) {
      const T value = low + share * (high - low);
      return value == high ? last : value;
    };
    if constexpr (sizeof(T) == 4) {
      for (int k = 0; k < 4; ++k) {
        for (int j = 0; j < kPlaces; ++j) numbers[k * kPlaces + j] = placed(unit(words[k][j]));
      }
    } else {
      for (int k = 0; k < 2; ++k) {
        for (int j = 0; j < kPlaces; ++j) {
          numbers[k * kPlaces + j] = placed(unit(words[2 * k][j], words[2 * k + 1][j]));
        }
      }
    }
  }
};

// By Box and Muller: two numbers of two.
template <typename T>
struct Normal {
  T mean, scale;

  void operator()(const Words& words, T* numbers) const {
    if constexpr (sizeof(T) == 4) {
      for (int k = 0; k < 4; k += 2) {
        for (int j = 0; j < kPlaces; ++j) {
          const float radius = scale * std::sqrt(-2 * log_of(positive_unit(words[k][j])));
          const Direction direction = direction_of(unit(words[k + 1][j]));
          numbers[k * kPlaces + j] = mean + radius * direction.cosine;
          numbers[(k + 1) * kPlaces + j] = mean + radius * direction.sine;
        }
      }
    } else {
      for (int j = 0; j < kPlaces; ++j) {
        const double share = unit(words[0][j], words[1][j]) + 0x1p-53;
        const double angle = 2 * std::numbers::pi * unit(words[2][j], words[3][j]);
        const double radius = scale * std::sqrt(-2 * std::log(share));
        numbers[j] = mean + radius * std::cos(angle);
        numbers[kPlaces + j] = mean + radius * std::sin(angle);
      }
    }
  }
};

template <typename T, typename Distribution>
Tensor drawn(Evaluation& c, const Distribution& distribution) {
  const RandomStream stream = stream_of(c.attributes);
  Tensor out(kDTypeOf<T>, c.output_shapes[0]);
  T* y = data_of<T>(out);
  const int64_t count = out.count(), blocks = (count + kNumbers<T> - 1) / kNumbers<T>;
  constexpr int64_t kGrain = 32;
  parallel(c.team, blocks, kGrain, [&](int64_t begin, int64_t end) {
    Words words;
    T numbers[kNumbers<T>];
    for (int64_t block = begin; block < end; ++block) {
      stream.words<kPlaces>(static_cast<uint64_t>(block) * kPlaces, words);
      distribution(words, numbers);
      const int64_t first = block * kNumbers<T>;
      std::copy_n(numbers, std::min<int64_t>(kNumbers<T>, count - first), y + first);
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
