// Every row of matmul_integer against the reference, over shapes that meet every edge and the
// extreme values of each type. Sums are exact; only the scaling rounds.
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/kernels/matmul_integer/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

// One rounding each of the sum, the product and the addition of the bias.
constexpr double kTolerance = 4e-7;

enum class Values : uint8_t { kRandom, kLow, kHigh };

void fill_bytes(std::span<float> floats, Values values, bool is_signed, uint32_t seed) {
  auto* bytes = reinterpret_cast<uint8_t*>(floats.data());
  for (size_t i = 0; i < floats.size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    const uint8_t low = is_signed ? 0x80 : 0, high = is_signed ? 0x7f : 0xff;
    bytes[i] = values == Values::kRandom ? static_cast<uint8_t>(seed >> 24)
               : values == Values::kLow  ? low
                                         : high;
  }
}

void check_values(MatmulIntegerProblem p, Values x, Values weights, Values zero) {
  Workbench bench(kMatmulInteger, &p, 11);
  bench.unalign_inputs();
  fill_bytes(bench.input(0), x, p.is_signed, 1);
  if (p.zero) fill_bytes(bench.input(2), zero, p.is_signed, 7);
  fill_bytes(bench.constant(0), weights, true, 3);
  for (int row = 0; row < kMatmulInteger.rows; ++row) {
    if (row == kMatmulInteger.reference || !kMatmulInteger.fits(row, &p).ok) continue;
    const Difference d = bench.check(row);
    EXPECT_LE(d.relative_to_max, kTolerance)
        << kMatmulInteger.row_name(row) << " on " << problem_key(p) << " at " << d.worst_index
        << ": got " << d.got << ", expected " << d.expected;
    for (const int units : {2, 5}) EXPECT_TRUE(bench.same_in_units(row, units)) << problem_key(p);
  }
}

void check_all(MatmulIntegerProblem p) {
  for (const Isa isa : usable_isas()) {
    p.target.isa = isa;
    for (const int threads : {1, 2}) {
      p.target.threads = threads;
      for (const int32_t is_signed : {0, 1}) {
        p.is_signed = is_signed;
        check_values(p, Values::kRandom, Values::kRandom, Values::kRandom);
      }
    }
  }
}

TEST(MatmulInteger, EdgesOfTilesAndVectors) {
  for (int64_t m : {1, 9}) {
    for (int64_t n : {1, 16, 31, 100}) {
      for (int64_t k : {1, 2, 67}) {
        check_all({.m = m, .n = n, .k = k, .zero = k % 2 == 1, .scale_per_column = n % 2 == 1});
      }
    }
  }
}

TEST(MatmulInteger, ScalesAndBiases) {
  for (int32_t bias : {0, 1}) {
    for (int32_t scales : {0, 1}) {
      check_all({.m = 9, .n = 37, .k = 30, .zero = 1, .scale_per_column = scales, .bias = bias});
    }
  }
}

TEST(MatmulInteger, ExtremeValuesDoNotSaturate) {
  for (const Isa isa : usable_isas()) {
    for (const int32_t is_signed : {0, 1}) {
      for (const int32_t zero : {0, 1}) {
        for (const int64_t k : {6, 3072}) {
          for (const Values x : {Values::kLow, Values::kHigh}) {
            for (const Values w : {Values::kLow, Values::kHigh}) {
              for (const Values z : {Values::kLow, Values::kHigh}) {
                const MatmulIntegerProblem p{.target = {.isa = isa},
                                             .m = 3,
                                             .n = 33,
                                             .k = k,
                                             .is_signed = is_signed,
                                             .zero = zero};
                check_values(p, x, w, z);
              }
            }
          }
        }
      }
    }
  }
}

TEST(MatmulInteger, TheLongestSums) {
  const MatmulIntegerProblem p{
      .target = {.isa = usable_isa()}, .n = 5, .k = MatmulIntegerProblem::kMostSteps, .zero = 1};
  check_values(p, Values::kHigh, Values::kLow, Values::kLow);
  check_values(p, Values::kLow, Values::kLow, Values::kHigh);
}

}  // namespace
}  // namespace stretto::kernels
