#include "stretto/kernels/concat_channels/problem.h"

#include <array>

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

ConcatChannelsProblem of(std::vector<std::array<int32_t, 3>> ranges, int threads) {
  ConcatChannelsProblem p{.n = 2, .h = 9, .w = 31};
  p.target.threads = threads;
  for (const auto& [channels, first, count] : ranges) {
    p.channels[p.inputs] = channels;
    p.first[p.inputs] = first;
    p.count[p.inputs++] = count;
  }
  return p;
}

TEST(ConcatChannels, ConcatenatesAndSlices) {
  for (int threads : {1, 2, 3}) {
    // Data movement is exact.
    EXPECT_GT(check_rows(kConcatChannels, of({{16, 0, 16}, {32, 0, 32}}, threads), 0), 0);
    EXPECT_GT(check_rows(kConcatChannels, of({{48, 16, 32}}, threads), 0), 0);
    EXPECT_GT(check_rows(kConcatChannels, of({{64, 32, 16}, {20, 16, 4}}, threads), 0), 0);
    EXPECT_GT(check_rows(kConcatChannels, of({{19, 0, 19}}, threads), 0), 0);
  }
}

TEST(ConcatChannels, ReferenceFitsAnyRange) {
  ConcatChannelsProblem p = of({{7, 2, 3}, {5, 0, 5}}, 1);
  p.target.isa = usable_isa();
  EXPECT_EQ(default_row(kConcatChannels, &p), kConcatChannels.reference);
  EXPECT_FALSE(kConcatChannels.fits(0, &p).ok);
  Workbench bench(kConcatChannels, &p);
  bench.unalign_inputs();
  bench.run(kConcatChannels.reference);
  const int64_t block = bench.block();
  // Channel 3 of the output is channel 0 of the second input; pixel 5 of image 0.
  EXPECT_EQ(bench.output(0)[3 / block * 279 * block + 5 * block + 3 % block],
            bench.input(1)[5 * block]);
}

}  // namespace
}  // namespace stretto::kernels
