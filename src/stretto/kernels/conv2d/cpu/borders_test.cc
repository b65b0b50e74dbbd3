#include "stretto/kernels/conv2d/cpu/borders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace stretto::kernels::conv2d {
namespace {

Axis axis(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t before,
          int64_t after) {
  const int64_t out = (in + before + after - dilation * (kernel - 1) - 1) / stride + 1;
  return {in, out, kernel, stride, dilation, before};
}

TEST(Borders, TapsAreSeenIfAnyPositionSeesThem) {
  for (const int64_t in : {1, 2, 5, 13}) {
    for (const int64_t kernel : {1, 2, 3, 7}) {
      for (const int64_t stride : {1, 2, 3}) {
        for (const int64_t dilation : {1, 2, 6}) {
          for (const int64_t before : {0, 1, 7}) {
            const Axis a = axis(in, kernel, stride, dilation, before, kernel * dilation);
            std::set<int64_t> seen;
            std::vector<std::set<int64_t>> by_position(static_cast<size_t>(a.out));
            for (int64_t o = 0; o < a.out; ++o) {
              for (int64_t tap = 0; tap < kernel; ++tap) {
                const int64_t at = o * stride - before + tap * dilation;
                if (at >= 0 && at < in) by_position[static_cast<size_t>(o)].insert(tap);
              }
              seen.merge(std::set(by_position[static_cast<size_t>(o)]));
            }
            size_t most = 0;
            int64_t runs = by_position.empty() ? 0 : 1;
            for (size_t o = 0; o < by_position.size(); ++o) {
              most = std::max(most, by_position[o].size());
              runs += o > 0 && by_position[o] != by_position[o - 1];
            }
            EXPECT_EQ(a.taps_seen(), static_cast<int64_t>(seen.size()))
                << in << " k" << kernel << " s" << stride << " d" << dilation << " p" << before;
            EXPECT_EQ(a.most_taps(), static_cast<int64_t>(most));
            EXPECT_GE(a.runs(), runs);  // positions that see nothing may count as several
          }
        }
      }
    }
  }
}

TEST(Borders, WeightsHaveGapsOnlyWhereNoPixelSeesAllTaps) {
  EXPECT_EQ(tap_gaps(axis(3, 3, 1, 1, 1, 1), axis(3, 3, 1, 1, 1, 1)), 0);
  EXPECT_EQ(tap_gaps(axis(3, 3, 1, 1, 1, 1), axis(2, 3, 1, 1, 1, 1)), 6);  // 3 rows in 2 columns
  EXPECT_EQ(tap_gaps(axis(2, 3, 1, 1, 1, 1), axis(3, 3, 1, 1, 1, 1)), 2);
  EXPECT_EQ(tap_gaps(axis(1, 3, 1, 1, 1, 1), axis(1, 3, 1, 1, 1, 1)), 1);
}

TEST(Borders, TilesCoverTheMapAndSkipTapsOutsideIt) {
  const Axis vertical = axis(5, 3, 1, 1, 1, 1), horizontal = axis(9, 3, 1, 1, 1, 1);
  TileWork work;
  double products = 0;
  add_tiles(work, vertical, horizontal, 4, 2, 2, 1, [&](const Patch& patch) {
    const int64_t taps = patch.taps_down() * patch.taps_across();
    products += static_cast<double>(taps * (patch.y_end - patch.y) * (patch.x_end - patch.x));
    return static_cast<double>(taps);
  });
  EXPECT_EQ(work.results, 5 * 9 * 2 * 2);
  EXPECT_EQ(products, 13 * 25);  // 3 * 5 - 2 times 3 * 9 - 2
  EXPECT_GE(work.steps, products * 2 * 2 / 2);
}

}  // namespace
}  // namespace stretto::kernels::conv2d
