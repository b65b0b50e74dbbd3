// Sums in the orders of the collectives are tested with them (collective/all_reduce_test.cc); here
// is what those do not reach.
#include "stretto/comm/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
std::vector<T> reduced(Isa isa, Reduction reduction, const std::vector<std::vector<T>>& inputs) {
  std::vector<ReduceSource> sources;
  for (const auto& input : inputs) sources.push_back({.data = input.data()});
  std::vector<T> out(inputs[0].size());
  reduce(isa, reduction, sources, static_cast<int64_t>(out.size()), out.data());
  return out;
}

TEST(Reduce, SameBitsWithEveryInstructionSetAndSize) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1000, 1000);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16})
    for (const int64_t count : {1, 3, 16, 63, 64, 65, 1000}) {
      std::vector<std::vector<std::byte>> inputs;
      std::vector<ReduceSource> sources;
      for (int s = 0; s < 5; ++s) {
        inputs.emplace_back(static_cast<size_t>(count) * dtype_bytes(dtype));
        for (int64_t i = 0; i < count; ++i) {
          const float value = uniform(random);
          std::byte* at = inputs.back().data() + i * static_cast<int64_t>(dtype_bytes(dtype));
          const double wide = value;
          const uint16_t half = float_to_half(value), bfloat = float_to_bfloat16(value);
          const void* from = dtype == DType::kFloat32   ? static_cast<const void*>(&value)
                             : dtype == DType::kFloat64 ? static_cast<const void*>(&wide)
                             : dtype == DType::kFloat16 ? &half
                                                        : &bfloat;
          std::memcpy(at, from, dtype_bytes(dtype));
        }
      }
      for (int s = 0; s < 5; ++s) sources.push_back({inputs[s].data(), s != 1 && s != 4});
      const Reduction average{.dtype = dtype, .op = ReduceOp::kAverage, .ranks = 5};
      std::vector<std::byte> first(inputs[0].size()), other(inputs[0].size());
      reduce(kIsas.front(), average, sources, count, first.data());
      for (const Isa isa : usable_isas()) {
        reduce(isa, average, sources, count, other.data());
        EXPECT_TRUE(first == other) << dtype_name(dtype) << " " << isa_name(isa) << " " << count;
      }
      // In place, and cut in two.
      std::vector<std::byte> in_place = inputs[2];
      sources[2].data = in_place.data();
      const int64_t half = count / 2, bytes = static_cast<int64_t>(dtype_bytes(dtype));
      reduce(usable_isa(), average, sources, half, in_place.data());
      for (ReduceSource& source : sources)
        source.data = static_cast<const std::byte*>(source.data) + half * bytes;
      reduce(usable_isa(), average, sources, count - half, in_place.data() + half * bytes);
      EXPECT_TRUE(first == in_place) << dtype_name(dtype) << " " << count;
    }
}

TEST(Reduce, MinAndMaxDoNotDependOnTheOrder) {
  for (const float a : {0.0f, -0.0f, 1.0f, kInf, -kInf, kNan})
    for (const float b : {0.0f, -0.0f, -1.0f, kInf, kNan})
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
        const Reduction reduction{.op = op};
        const auto ab = reduced<float>(usable_isa(), reduction, {{a}, {b}});
        const auto ba = reduced<float>(usable_isa(), reduction, {{b}, {a}});
        EXPECT_EQ(std::memcmp(ab.data(), ba.data(), sizeof(float)), 0) << a << " " << b;
        EXPECT_EQ(std::isnan(ab[0]), std::isnan(a) || std::isnan(b));
      }
  const Reduction max{.op = ReduceOp::kMax}, min{.op = ReduceOp::kMin};
  EXPECT_FALSE(std::signbit(reduced<float>(usable_isa(), max, {{-0.0f}, {0.0f}})[0]));
  EXPECT_TRUE(std::signbit(reduced<float>(usable_isa(), min, {{-0.0f}, {0.0f}})[0]));
}

TEST(Reduce, AveragesOfFp16DoNotOverflowOnTheWay) {
  const uint16_t large = float_to_half(40000);
  std::vector<uint16_t> in(20, large), out(20);
  std::vector<ReduceSource> sources;
  for (int r = 0; r < 4; ++r) sources.push_back({in.data(), r % 2 == 0});
  reduce(usable_isa(), {.dtype = DType::kFloat16, .op = ReduceOp::kAverage, .ranks = 4}, sources,
         20, out.data());
  for (const uint16_t value : out) EXPECT_EQ(half_to_float(value), 40000);
}

TEST(Reduce, IntegersWrapAndTruncate) {
  const Reduction sum{.dtype = DType::kInt32};
  EXPECT_EQ(reduced<int32_t>(usable_isa(), sum, {{INT32_MAX}, {1}})[0], INT32_MIN);
  const Reduction average{.dtype = DType::kInt64, .op = ReduceOp::kAverage, .ranks = 2};
  EXPECT_EQ(reduced<int64_t>(usable_isa(), average, {{-2}, {-1}})[0], -1);
  const Reduction product{.dtype = DType::kUInt16, .op = ReduceOp::kProduct};
  EXPECT_EQ(reduced<uint16_t>(usable_isa(), product, {{65535}, {65535}})[0], 1);
  const Reduction exclusive{.dtype = DType::kUInt8, .op = ReduceOp::kXor};
  EXPECT_EQ(reduced<uint8_t>(usable_isa(), exclusive, {{12}, {10}})[0], 6);
}

TEST(Reduce, TruthValues) {
  const Reduction any{.dtype = DType::kBool, .op = ReduceOp::kSum};
  EXPECT_EQ(reduced<uint8_t>(usable_isa(), any, {{0, 1, 0}, {0, 1, 7}}),
            (std::vector<uint8_t>{0, 1, 1}));
  const Reduction all{.dtype = DType::kBool, .op = ReduceOp::kMin};
  EXPECT_EQ(reduced<uint8_t>(usable_isa(), all, {{0, 1, 1}, {1, 1, 4}}),
            (std::vector<uint8_t>{0, 1, 1}));
}

TEST(Reduce, SaysWhatDoesNotFit) {
  EXPECT_NE(reduce_unfit(DType::kFloat32, ReduceOp::kAnd), "");
  EXPECT_NE(reduce_unfit(DType::kBool, ReduceOp::kAverage), "");
  EXPECT_NE(reduce_unfit(DType::kFloat8E5M2, ReduceOp::kSum), "");
  EXPECT_EQ(reduce_unfit(DType::kBFloat16, ReduceOp::kProduct), "");
  EXPECT_EQ(parse_reduce_op("average"), ReduceOp::kAverage);
  EXPECT_THROW(parse_reduce_op("mean"), InvalidArgument);
  EXPECT_TRUE(is_exact(DType::kFloat16, ReduceOp::kMax));
  EXPECT_FALSE(is_exact(DType::kFloat64, ReduceOp::kAverage));
}

}  // namespace
}  // namespace stretto::comm
