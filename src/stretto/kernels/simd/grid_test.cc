#include "stretto/kernels/simd/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stretto::kernels {
namespace {

GridPart part(int64_t rows, int64_t columns, const Worker& worker, bool more_rows) {
  return split_grid(rows, columns, worker, more_rows ? 2 : 1, more_rows ? 1 : 2);
}

TEST(Grid, UnitsCoverEveryShareOnce) {
  for (const int64_t rows : {0, 1, 5, 14, 100}) {
    for (const int64_t columns : {1, 3, 16}) {
      for (const int count : {1, 2, 3, 6}) {
        for (const int units : {1, 2, 3, 4, 16}) {
          for (const bool more_rows : {false, true}) {
            std::vector<int> owner(static_cast<size_t>(rows * columns), -1);
            for (int index = 0; index < count; ++index) {
              const GridPart share =
                  part(rows, columns, {.index = index, .count = count}, more_rows);
              for (int unit = 0; unit < units; ++unit) {
                const GridPart p =
                    part(rows, columns,
                         {.index = index, .count = count, .unit = unit, .units = units}, more_rows);
                for (int64_t r = p.rows.begin; r < p.rows.end; ++r) {
                  for (int64_t c = p.columns.begin; c < p.columns.end; ++c) {
                    EXPECT_TRUE(share.rows.begin <= r && r < share.rows.end);
                    EXPECT_TRUE(share.columns.begin <= c && c < share.columns.end);
                    EXPECT_EQ(owner[r * columns + c], -1);
                    owner[r * columns + c] = index;
                  }
                }
              }
            }
            for (const int at : owner) EXPECT_GE(at, 0);
          }
        }
      }
    }
  }
}

// What all rows read is large: a unit has all rows of the share, as far as columns go.
TEST(Grid, UnitsDivideTheLargerOperandFirst) {
  const Worker worker{.index = 0, .count = 2, .unit = 1, .units = 4};
  GridPart p = split_grid(100, 16, worker, 1, 1000);
  EXPECT_EQ(p.rows.end - p.rows.begin, 100);
  EXPECT_EQ(p.columns.begin, 2);
  EXPECT_EQ(p.columns.end, 4);
  p = split_grid(100, 4, worker, 1, 1000);  // two columns for four units
  EXPECT_EQ(p.rows.begin, 50);
  EXPECT_EQ(p.rows.end, 100);
  EXPECT_EQ(p.columns.end - p.columns.begin, 1);
  p = split_grid(80, 16, worker, 1000, 1);
  EXPECT_EQ(p.columns.end - p.columns.begin, 16);
  EXPECT_EQ(p.rows.begin, 10);
  EXPECT_EQ(p.rows.end, 20);
}

TEST(Grid, TheLargestShareIsThatOfTheBusiestWorker) {
  for (const int64_t rows : {0, 1, 2, 5, 14}) {
    for (const int64_t columns : {1, 2, 3, 16}) {
      for (const int count : {1, 2, 3, 6}) {
        for (const bool more_rows : {false, true}) {
          int64_t most = 0;
          for (int index = 0; index < count; ++index) {
            const GridPart p = part(rows, columns, {.index = index, .count = count}, more_rows);
            most = std::max(most, (p.rows.end - p.rows.begin) * (p.columns.end - p.columns.begin));
          }
          const ShareSize share =
              largest_share(rows, columns, count, more_rows ? 2 : 1, more_rows ? 1 : 2);
          const double all = static_cast<double>(rows * columns);
          EXPECT_DOUBLE_EQ(share.of_all * all, rows == 0 ? 0 : static_cast<double>(most));
          EXPECT_GE(share.of_columns, share.of_all);
        }
      }
    }
  }
}

TEST(Grid, PanelsAreCountedByTheirWidth) {
  for (const int64_t blocks : {0, 1, 2, 3, 7, 40}) {
    for (const int64_t width : {1, 2, 3, 4}) {
      const Panels panels(blocks, width, width + 1, 2);
      int64_t all = 0;
      for (int64_t v = 1; v <= 5; ++v) {
        int64_t counted = 0;
        for (int64_t i = 0; i < panels.count; ++i) counted += panels.vectors(i) == v;
        EXPECT_EQ(panels.of_width(v), counted) << blocks << " " << width << " " << v;
        all += panels.of_width(v) * v;
      }
      EXPECT_EQ(all, blocks);
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
