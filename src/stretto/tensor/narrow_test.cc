#include "stretto/tensor/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace stretto {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr DType kFloats[] = {DType::kFloat8E4M3FN,   DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                             DType::kFloat8E5M2FNUZ, DType::kFloat8E8M0,     DType::kFloat4E2M1};
constexpr DType kIntegers[] = {DType::kInt4, DType::kUInt4, DType::kInt2, DType::kUInt2};

float value_of(DType dtype, uint8_t bits) {
  return static_cast<float>(unnarrowed(Tensor(dtype, {}, &bits, nullptr)).as_doubles()[0]);
}

uint8_t bits_of(DType dtype, float value, const NarrowOptions& options = {}) {
  return *static_cast<const uint8_t*>(narrowed(Tensor::scalar(value), dtype, options).data());
}

TEST(Narrow, EveryCodeSurvives) {
  for (DType dtype : kFloats) {
    for (int bits = 0; bits < 1 << narrow_bits(dtype); ++bits) {
      const auto code = static_cast<uint8_t>(bits);
      const float value = value_of(dtype, code);
      const uint8_t again = bits_of(dtype, value, {.saturate = false});
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(value_of(dtype, again))) << dtype_name(dtype) << " " << bits;
      } else {
        EXPECT_EQ(again, code) << dtype_name(dtype) << " " << value;
      }
    }
  }
  for (DType dtype : kIntegers) {
    for (int bits = 0; bits < 1 << narrow_bits(dtype); ++bits) {
      const auto code = static_cast<uint8_t>(bits);
      EXPECT_EQ(bits_of(dtype, value_of(dtype, code)), code) << dtype_name(dtype) << " " << bits;
    }
  }
}

// Of the tables in the formats' papers: the largest and the smallest positive number.
TEST(Narrow, FormatsHaveTheirRanges) {
  EXPECT_EQ(value_of(DType::kFloat8E4M3FN, 0x7e), 448);
  EXPECT_EQ(value_of(DType::kFloat8E4M3FN, 0x01), 0x1p-9f);
  EXPECT_EQ(value_of(DType::kFloat8E4M3FN, 0xbc), -1.5f);
  EXPECT_EQ(value_of(DType::kFloat8E4M3FNUZ, 0x7f), 240);
  EXPECT_EQ(value_of(DType::kFloat8E4M3FNUZ, 0x01), 0x1p-10f);
  EXPECT_EQ(value_of(DType::kFloat8E5M2, 0x7b), 57344);
  EXPECT_EQ(value_of(DType::kFloat8E5M2, 0x01), 0x1p-16f);
  EXPECT_EQ(value_of(DType::kFloat8E5M2, 0xfc), -kInfinity);
  EXPECT_EQ(value_of(DType::kFloat8E5M2FNUZ, 0x7f), 57344);
  EXPECT_EQ(value_of(DType::kFloat8E5M2FNUZ, 0x01), 0x1p-17f);
  EXPECT_EQ(value_of(DType::kFloat8E8M0, 127), 1);
  EXPECT_EQ(value_of(DType::kFloat8E8M0, 0), 0x1p-127f);
  const float small[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(value_of(DType::kFloat4E2M1, code), small[code]);
    EXPECT_EQ(value_of(DType::kFloat4E2M1, code + 8), -small[code]);
  }
  EXPECT_EQ(value_of(DType::kInt4, 0x8), -8);
  EXPECT_EQ(value_of(DType::kInt4, 0xf), -1);
  EXPECT_EQ(value_of(DType::kUInt4, 0xf), 15);
  EXPECT_EQ(value_of(DType::kInt2, 0x2), -2);
  EXPECT_EQ(value_of(DType::kUInt2, 0x3), 3);
}

TEST(Narrow, RoundsToNearestTiesToEven) {
  const auto rounded = [](DType dtype, float x) { return value_of(dtype, bits_of(dtype, x)); };
  EXPECT_EQ(rounded(DType::kFloat8E4M3FN, 17), 16);  // between 16 and 18
  EXPECT_EQ(rounded(DType::kFloat8E4M3FN, 19), 20);  // between 18 and 20
  EXPECT_EQ(rounded(DType::kFloat8E4M3FN, -17.1f), -18);
  EXPECT_EQ(rounded(DType::kFloat8E5M2, 0x1p-17f), 0);
  EXPECT_EQ(rounded(DType::kFloat8E5M2, 0x1.1p-17f), 0x1p-16f);
  EXPECT_EQ(rounded(DType::kFloat4E2M1, 2.5f), 2);
  EXPECT_EQ(rounded(DType::kFloat4E2M1, 5), 4);
  EXPECT_EQ(rounded(DType::kFloat4E2M1, 100), 6);
  EXPECT_EQ(bits_of(DType::kFloat8E4M3FNUZ, -0.0f), 0);  // its 0x80 is NaN
  EXPECT_EQ(bits_of(DType::kFloat8E5M2, -0.0f), 0x80);
}

TEST(Narrow, WhatIsTooLargeSaturatesOrOverflows) {
  const NarrowOptions open{.saturate = false};
  for (DType dtype : {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ}) {
    EXPECT_EQ(bits_of(dtype, kInfinity), dtype == DType::kFloat8E4M3FN ? 0x7e : 0x7f);
    EXPECT_TRUE(std::isnan(value_of(dtype, bits_of(dtype, -1e9f, open)))) << dtype_name(dtype);
  }
  EXPECT_EQ(value_of(DType::kFloat8E5M2, bits_of(DType::kFloat8E5M2, -1e9f)), -57344);
  EXPECT_EQ(value_of(DType::kFloat8E5M2, bits_of(DType::kFloat8E5M2, -1e9f, open)), -kInfinity);
  // 464 lies half way to the number that would come next.
  EXPECT_EQ(value_of(DType::kFloat8E4M3FN, bits_of(DType::kFloat8E4M3FN, 463, open)), 448);
  EXPECT_EQ(bits_of(DType::kFloat4E2M1, std::nanf("")), 0);  // it has no NaN
  EXPECT_EQ(bits_of(DType::kInt4, 9), 0x9);                  // high bits are dropped
  EXPECT_EQ(bits_of(DType::kUInt4, -1), 0xf);
}

TEST(Narrow, PowersOfTwoRoundAsAsked) {
  const auto rounded = [](float x, PowerRounding rounding) {
    return value_of(DType::kFloat8E8M0, bits_of(DType::kFloat8E8M0, x, {.rounding = rounding}));
  };
  EXPECT_EQ(rounded(1.1f, PowerRounding::kUp), 2);
  EXPECT_EQ(rounded(1.9f, PowerRounding::kDown), 1);
  EXPECT_EQ(rounded(1.4f, PowerRounding::kNearest), 1);
  EXPECT_EQ(rounded(1.6f, PowerRounding::kNearest), 2);
  EXPECT_EQ(rounded(-4, PowerRounding::kUp), 4);  // it has no sign
  EXPECT_TRUE(std::isnan(rounded(kInfinity, PowerRounding::kUp)));
}

TEST(Narrow, TensorsConvertToAndFrom) {
  const std::vector<float> values{0.4f, -3, 1000, 5.9f};
  const Tensor x = Tensor::of<float>({4}, values);
  const Tensor narrow = x.converted(DType::kFloat8E4M3FN);
  EXPECT_EQ(narrow.bytes(), 4u);
  EXPECT_EQ(narrow.as_doubles(), (std::vector<double>{0.40625, -3, 448, 6}));
  EXPECT_EQ(narrow.converted(DType::kInt4).as_int64s(), (std::vector<int64_t>{0, -3, 0, 6}));
  EXPECT_EQ(narrow.converted(DType::kFloat8E4M3FN).as_doubles(), narrow.as_doubles());
}

}  // namespace
}  // namespace stretto
