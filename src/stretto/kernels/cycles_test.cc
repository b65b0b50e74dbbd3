#include "stretto/kernels/cycles.h"

#include <gtest/gtest.h>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/conv2d/problem.h"

namespace stretto::kernels {
namespace {

TEST(Cycles, AStepTakesWhatIsSlowestInIt) {
  const auto step = [](double rows, double vectors) {
    TileWork work;
    work.add(1, rows, vectors, 1);
    return work.steps;
  };
  EXPECT_EQ(step(14, 2), 14);   // multiply-adds
  EXPECT_EQ(step(1, 4), 4);     // vectors of B, and the wait for the last sum
  EXPECT_EQ(step(12, 1), 6.5);  // loads
  EXPECT_EQ(step(1, 1), 4);
}

TEST(Cycles, PartsOfAReductionStartTilesAnew) {
  TileWork work;
  work.add(3, 5, 2, 100, 4);
  EXPECT_EQ(work.starts, 12);
  EXPECT_EQ(work.results, 30);
  EXPECT_GT(tile_cycles(work, 20, {}), tile_cycles(work, 10, {}));
  EXPECT_GT(tile_cycles(work, 20, {.activation = Activation::kSilu}), tile_cycles(work, 20, {}));
}

TEST(Cycles, WeightsComeFromMemoryOnce) {
  const Target target{.isa = kIsas.front()};
  const auto cycles = [&](double bytes, double passes, double exposed) {
    return run_cycles(target, 0, {.bytes = bytes, .passes = passes, .exposed = exposed}) -
           kCallCycles;
  };
  const auto l2 = static_cast<double>(cpu_info().l2_bytes);
  EXPECT_DOUBLE_EQ(cycles(l2 / 2, 1, 1), memory_cycles(target, l2 / 2, true));
  EXPECT_DOUBLE_EQ(cycles(l2 / 2, 5, 1), cycles(l2 / 2, 1, 1));
  const auto l3 = static_cast<double>(cpu_info().l3_bytes);
  EXPECT_DOUBLE_EQ(cycles(2 * (l3 + l2), 5, 1), 5 * cycles(2 * (l3 + l2), 1, 1));
  // What is read while something longer is computed costs its exposed share.
  const double compute = 10 * memory_cycles(target, l2, true);
  const WeightWork hidden{.bytes = l2, .exposed = 0.25};
  EXPECT_DOUBLE_EQ(run_cycles(target, compute, hidden),
                   kCallCycles + compute + memory_cycles(target, l2, true) / 4);
}

TEST(Cycles, ThreadsThatReadTheirOwnWeightsShareTheMemory) {
  const Target team{.isa = kIsas.front(), .threads = 2};
  EXPECT_GE(memory_cycles(team, 1e6, false), memory_cycles(team, 1e6, true));
  EXPECT_DOUBLE_EQ(expected_share(team, 4.0 * team.lanes() * 1000, 1000), 0.5);
}

// The formulas run for whatever a user writes, before anybody knows that there is nothing to do.
TEST(Cycles, EmptyConvolutionsHaveExpectations) {
  for (const Isa isa : usable_isas()) {
    for (const int threads : {1, 2}) {
      for (const int empty : {0, 1, 2}) {
        Conv2dProblem p{};
        p.target = {.isa = isa, .threads = threads};
        p.n = empty == 0 ? 0 : 1;
        p.c = 16;
        p.h = empty == 1 ? 0 : 4;
        p.w = empty == 2 ? 0 : 4;
        p.k = 32;
        p.kernel_h = p.kernel_w = 1;
        for (const Layout layout : {Layout::kPlain, Layout::kBlocked}) {
          p.x_layout = layout;
          p.y_layout = Layout::kBlocked;
          for (int row = 0; row < kConv2d.rows; ++row) {
            const Fit fit = kConv2d.fits(row, &p);
            if (!fit.ok) continue;
            EXPECT_GE(fit.expected, 0) << kConv2d.row_name(row) << " " << empty;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
