// How a team shares the tiles of a matrix product.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stretto/base/team.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels {

// A rectangle of rows x columns of some grid of equal work units.
struct GridPart {
  Range rows, columns;
};

// A worker's unit of its share. Units divide the rows, or else the columns, as far as there are
// that many, and then the others: whoever does them all in order reads as much as if they were one.
inline GridPart unit_of(const GridPart& share, const Worker& worker, bool by_rows) {
  if (worker.units == 1) return share;
  const auto size = [](const Range& range) {
    return std::max<int64_t>(1, range.end - range.begin);
  };
  const int64_t units = worker.units;
  const int64_t first = std::min(units, size(by_rows ? share.rows : share.columns));
  const int64_t second = std::min(units / first, size(by_rows ? share.columns : share.rows));
  if (worker.unit >= first * second) return {{0, 0}, {0, 0}};
  const int64_t outer = worker.unit / second, inner = worker.unit % second;
  return {part_of(share.rows, by_rows ? outer : inner, by_rows ? first : second),
          part_of(share.columns, by_rows ? inner : outer, by_rows ? second : first)};
}

// This worker's part of `rows` x `columns` units: of all ways to write the team as a product, the
// one whose busiest worker has least. Ties are decided by what workers would otherwise all read:
// rows are divided first when `row_bytes` (A, all rows) exceeds `column_bytes` (B, all columns),
// else columns. So are the units of each share.
inline GridPart split_grid(int64_t rows, int64_t columns, const Worker& worker, int64_t row_bytes,
                           int64_t column_bytes) {
  int best = 1;
  int64_t least = INT64_MAX;
  for (int i = 1; i <= worker.count; ++i) {
    const int across = row_bytes > column_bytes ? i : worker.count + 1 - i;
    if (worker.count % across != 0) continue;
    const int64_t down = worker.count / across;
    const int64_t load = ((rows + down - 1) / down) * ((columns + across - 1) / across);
    if (load < least) {
      least = load;
      best = across;
    }
  }
  const int64_t down = worker.count / best;
  const GridPart share{part_of({0, rows}, worker.index / best, down),
                       part_of({0, columns}, worker.index % best, best)};
  return unit_of(share, worker, row_bytes / down > column_bytes / best);
}

// What the busiest worker of a team of `threads` gets from split_grid(), of all units and of the
// columns.
struct ShareSize {
  double of_all, of_columns;

  double of_rows() const { return of_all / of_columns; }
  // How often it goes over its columns when the rows are cut into so many parts in all.
  double passes(double parts) const { return std::max(1.0, parts * of_rows()); }
};
inline ShareSize largest_share(int64_t rows, int64_t columns, int threads, int64_t row_bytes,
                               int64_t column_bytes) {
  const auto size = [](const Range& range, int64_t all) {
    return static_cast<double>(range.end - range.begin) /
           static_cast<double>(std::max<int64_t>(all, 1));
  };
  ShareSize largest{0, 0};
  for (int index = 0; index < threads; ++index) {
    const GridPart share =
        split_grid(rows, columns, {.index = index, .count = threads}, row_bytes, column_bytes);
    const double of_columns = size(share.columns, columns);
    const double of_all = size(share.rows, rows) * of_columns;
    if (of_all > largest.of_all) largest = {of_all, of_columns};
  }
  return largest.of_all > 0 ? largest : ShareSize{1, 1};
}

// `blocks` vectors of output channels or columns cut into `count` panels of about `width` vectors,
// as even as possible, none wider than `widest`. For a team there may be some more of them, so that
// its members get equally many.
struct Panels {
  int64_t blocks, width, count;
  Panels(int64_t blocks, int64_t width, int64_t widest, int64_t team = 1)
      : blocks(blocks), width(width), count((blocks + width - 1) / width) {
    const int64_t rest = blocks % width;
    if (rest != 0 && count > 1 && width + rest <= widest) --count;
    // Narrower panels cost more loads per multiply-add: not by more than a quarter.
    const int64_t shared = (count + team - 1) / team * team;
    if (shared <= std::min(blocks, count + count / 4)) count = shared;
  }
  int64_t begin(int64_t panel) const { return panel * blocks / count; }
  int64_t vectors(int64_t panel) const { return begin(panel + 1) - begin(panel); }
  // How many panels have so many vectors.
  int64_t of_width(int64_t vectors) const {
    if (count == 0) return 0;
    const int64_t least = blocks / count, wider = blocks % count;
    return vectors == least ? count - wider : vectors == least + 1 ? wider : 0;
  }
};

// The widths that panels are chosen from.
inline constexpr int64_t kPanelWidths[] = {2, 3, 4};

inline Panels panels_of(int64_t blocks, int64_t width, int64_t team = 1) {
  return {blocks, width, std::min<int64_t>(width + 1, TileSet::kMaxVectors), team};
}

// Panels for products of about `rows` rows: two vectors wide, where most rows fit the
// registers; wider when there are so few rows that a two-wide tile would wait for its own sums.
// The target's width is before all of that.
inline Panels choose_panels(const Target& target, int64_t blocks, int64_t rows, int64_t team = 1) {
  if (target.panel_width != 0) return panels_of(blocks, target.panel_width, team);
  const TileSet& set = tile_set(target.isa);
  return panels_of(blocks, rows <= set.max_rows[4] ? 4 : rows <= set.max_rows[3] ? 3 : 2, team);
}

// Panels for products whose rows can be cut anywhere: three vectors wide. 9 rows take 12 loads for
// 27 multiply-adds, where 14 rows of two vectors take 16 for 28; with 16 registers, 7 for 12
// instead of 8: less to do beside the multiply-adds when another thread shares the core
// (docs/design/speed.md). Maps and Winograd tiles come in rows that 14 divides better.
inline Panels choose_wide_panels(const Target& target, int64_t blocks, int64_t rows, int64_t team) {
  const Panels panels = choose_panels(target, blocks, rows, team);
  return panels.width == 2 && target.panel_width == 0 ? panels_of(blocks, 3, team) : panels;
}

}  // namespace stretto::kernels
