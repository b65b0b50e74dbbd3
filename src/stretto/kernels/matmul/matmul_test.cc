// Every row of matmul against the reference, over shapes that meet every edge.
#include <gtest/gtest.h>

#include "stretto/kernels/matmul/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

void check_all(MatmulProblem p) {
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      Workbench bench(kMatmul, &p, 5);
      bench.unalign_inputs();
      for (int row = 0; row < kMatmul.rows; ++row) {
        if (row == kMatmul.reference) continue;
        if (!kMatmul.fits(row, &p).ok) continue;
        // fp32 sums against double: rounding of about sqrt(k) ulp, relative to the largest result.
        const Difference d = bench.check(row);
        EXPECT_LE(d.relative_to_max, 2e-5)
            << kMatmul.row_name(row) << " on " << problem_key(p) << " at " << d.worst_index
            << ": got " << d.got << ", expected " << d.expected << " (seed 5)";
      }
    }
  }
}

TEST(Matmul, EdgesOfTilesAndVectors) {
  for (int32_t transposed : {0, 1}) {
    for (int64_t m : {1, 3, 14, 31}) {
      for (int64_t n : {1, 5, 16, 33, 70}) {
        for (int64_t k : {1, 6, 64}) {
          check_all({.rank = 1,
                     .batch = {2},
                     .m = m,
                     .n = n,
                     .k = k,
                     .transposed = transposed,
                     .alpha = 0.125f});
        }
      }
    }
  }
}

TEST(Matmul, NoBatch) { check_all({.rank = 0, .m = 19, .n = 40, .k = 33}); }

TEST(Matmul, LongReductionsInParts) {
  check_all({.rank = 0, .m = 9, .n = 37, .k = 1500});
  check_all({.rank = 0, .m = 17, .n = 21, .k = 1027, .transposed = 1});
}

TEST(Matmul, BroadcastsEitherSide) {
  check_all({.rank = 3,
             .batch = {2, 3, 2},
             .broadcast_x = {0, 1, 0},
             .broadcast_z = {1, 0, 0},
             .m = 5,
             .n = 18,
             .k = 7});
  check_all({.rank = 2,
             .batch = {3, 2},
             .broadcast_x = {1, 1},
             .broadcast_z = {0, 0},
             .m = 4,
             .n = 9,
             .k = 8,
             .transposed = 1});
}

}  // namespace
}  // namespace stretto::kernels
