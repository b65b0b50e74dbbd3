// Every row of gemm against the reference, over shapes that meet every edge.
#include <gtest/gtest.h>

#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

// fp32 sums of up to 3072 products against double: about sqrt(length) ulp of the largest value.
constexpr double kTolerance = 2e-5;

void check_all(GemmProblem p) {
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      Workbench bench(kGemm, &p, 11);
      bench.unalign_inputs();
      for (int row = 0; row < kGemm.rows; ++row) {
        if (row == kGemm.reference) continue;
        if (!kGemm.fits(row, &p).ok) continue;
        const Difference d = bench.check(row);
        EXPECT_LE(d.relative_to_max, kTolerance)
            << kGemm.row_name(row) << " on " << problem_key(p) << " at " << d.worst_index
            << ": got " << d.got << ", expected " << d.expected << " (seed 11)";
      }
    }
  }
}

TEST(Gemm, EdgesOfTilesAndVectors) {
  for (int64_t m : {1, 2, 7, 15, 29}) {
    for (int64_t n : {1, 3, 16, 31, 48, 65, 100}) {
      for (int64_t k : {1, 5, 64}) check_all({.m = m, .n = n, .k = k});
    }
  }
}

TEST(Gemm, LongReductionsInParts) {
  check_all({.m = 33, .n = 40, .k = 2500});
  check_all({.m = 5,
             .n = 37,
             .k = 3072,
             .transposed = 1,
             .epilogue = {.activation = Activation::kGelu, .bias = true, .residual = true}});
}

TEST(Gemm, Epilogues) {
  for (const Activation activation : activations()) {
    for (bool after : {false, true}) {
      for (int64_t n : {35, 64}) {
        check_all({.m = 18,
                   .n = n,
                   .k = 24,
                   .transposed = after,
                   .epilogue = {.activation = activation,
                                .bias = true,
                                .residual = true,
                                .residual_after_activation = after,
                                .alpha = 0.2f,
                                .beta = 0.6f}});
      }
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
