// What parts of a convolution take, in cycles, for the expectations of its kernels. A cycle is the
// time in which a core computes two vectors of multiply-adds, at whatever clock. The constants were
// fitted to some 2,200 random problems on Zen 5, with AVX-512 and with AVX2, one thread
// (bench/regret.py); most kernels are then expected within 15 %.
#pragma once

#include <algorithm>

#include "stretto/kernels/epilogue.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/simd/grid.h"

namespace stretto::kernels {

// Of a multiply-add, until its sum is there for the next one.
inline constexpr double kLatency = 4;

// What a thread does with register tiles (simd/tile.h).
struct TileWork {
  double starts = 0;   // of a tile, or of a part of its reduction
  double steps = 0;    // cycles of multiply-adds, or of loads and waiting where these take longer
  double results = 0;  // vectors

  // `count` tiles of rows x vectors, each a reduction over `depth` values that is cut into `parts`.
  void add(double count, double rows, double vectors, double depth, double parts = 1);
};

// Adds `times` products of `rows` rows by all panels; a tile reduces over `depth` values, in
// parts(vectors).
template <typename F>
void add_panels(TileWork& work, const TileSet& set, const Panels& panels, double times,
                int64_t rows, double depth, F&& parts) {
  for (int v = 1; v <= TileSet::kMaxVectors && rows > 0; ++v) {
    const auto count = static_cast<double>(panels.of_width(v));
    if (count == 0) continue;
    const auto tiles = static_cast<double>(EvenTiles(rows, set.max_rows[v]).tiles);
    work.add(times * count * tiles, static_cast<double>(rows) / tiles, v, depth,
             static_cast<double>(parts(v)));
  }
}

// `start` is what the kernel does around each tile, in cycles.
double tile_cycles(const TileWork& work, double start, const Epilogue& epilogue);

// The packed weights of a run, which a thread goes over `passes` times.
struct WeightWork {
  double bytes = 0;
  double pieces = 0;  // places in them at which the next ones do not follow in memory
  double part = 1;    // of both, what one thread reads; 1: all threads read the same
  double passes = 1;
  // Of reading and multiplying, the share of the shorter one that is not hidden by the longer one.
  double exposed = 1;
};

// A whole run of a kernel: the weights come from memory first, and then from where they fit.
double run_cycles(const Target& target, double compute, const WeightWork& weights);

// Until all else that a run needs is in the caches.
inline constexpr double kCallCycles = 2250;

// Of two things that a thread does, partly at the same time.
inline double overlapped(double a, double b, double exposed) {
  return std::max(a, b) + exposed * std::min(a, b);
}

// Cycles in which one of the target's threads reads `bytes` from memory, while the others read the
// same ones (`shared`) or their own.
double memory_cycles(const Target& target, double bytes, bool shared);

// What of reading and writing maps of `bytes` in all does not hide behind computing, for a kernel
// that does little with each value: of one of the target's threads, whose share of them is `part`.
double map_cycles(const Target& target, double bytes, double part);

// Fit::expected of a kernel whose busiest thread takes `cycles` for its part of `flops`.
double expected_share(const Target& target, double flops, double cycles);

}  // namespace stretto::kernels
