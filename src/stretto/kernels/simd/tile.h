// The register tile under every matrix product and direct convolution: `rows` x `vectors` sums held
// in registers while a reduction runs over A (one value broadcast per row) and B (packed vectors).
// Every multiply-add is vectors-wide and every loaded value is used `rows` or `vectors` times, so a
// tile runs at the fp32 peak as long as B comes from L2 or nearer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stretto/base/cpu.h"
#include "stretto/kernels/epilogue.h"

namespace stretto::kernels {

// One part of a reduction: where it lies relative to Tile::a and Tile::b, in elements.
struct Tap {
  int64_t a, b;
};

// c[r, v] = epilogue(init + sum over group g, tap t, step i of A[r; g, t, i] * B[g, t, i; v]) with
//   A[r; g, t, i]  at a + r * a_row + g * a_group + taps[t].a + i
//   B[g, t, i; v]  at b + g * b_group + taps[t].b + (i * vectors + v) * lanes   (a vector)
//   c[r, v]        at c + r * c_row + v * c_vector                              (a vector)
// i runs over `steps`, in the last group over `last_steps`. init is c itself when `accumulate`,
// else bias (vectors * lanes values) or zero. B is aligned to a vector, everything else to an
// element.
struct Tile {
  const float* a = nullptr;
  int64_t a_row = 0, a_group = 0;
  const float* b = nullptr;
  int64_t b_group = 0;
  const Tap* taps = nullptr;
  int32_t tap_count = 1, groups = 1, steps = 0, last_steps = 0;

  // Read ahead towards L2 while the tile runs, evenly, at most 16 values per step (8 with short
  // vectors). Weights that a network has not touched since its last run come from memory, at a
  // third of the pace that the first tile of a panel wants them: see set_prefetch.
  const float* prefetch = nullptr;
  const float* prefetch_end = nullptr;

  // c, and residual, lie beyond L2: their lines are fetched while the tile computes.
  bool far_results = false;

  float* c = nullptr;
  int64_t c_row = 0, c_vector = 0;
  const float* bias = nullptr;      // null: zero
  const float* residual = nullptr;  // strides of c; null: none
  bool accumulate = false;
  bool residual_after = false;  // add it after the clamp instead of before
  bool clamp = false;           // sum = min(max(sum, lo), hi)
  bool relu = false;            // sum = max(sum, 0)
  float lo = 0, hi = 0;
};

// What the tiles of one instruction set offer.
struct TileSet {
  static constexpr int kMaxVectors = 4, kMaxRows = 14;
  using Run = void (*)(const Tile&);

  int lanes = 0;
  int max_rows[kMaxVectors + 1] = {};        // by vectors: most rows without spilling
  const Run (*run)[kMaxRows + 1] = nullptr;  // [vectors][rows], null beyond max_rows

  // Lane by lane instead of as a product, for depthwise convolution: c[r] = epilogue(init + sum
  // over taps of A[r; t] * B[t]), all of them vectors: A at a + r * a_row + taps[t].a, B at b +
  // taps[t].b. Groups, steps and vectors are not used. [rows]
  Run run_lanes[kMaxRows + 1] = {};

  // In place on a stored tile: the activation, then the residual if it comes after it. For those
  // activations that Tile cannot apply itself.
  void (*finish)(const Epilogue& e, float* c, int64_t c_row, int64_t c_vector, int rows,
                 int vectors, const float* residual) = nullptr;
  // The whole epilogue but the bias, in place on `count` contiguous values, a multiple of the
  // lanes.
  void (*finish_flat)(const Epilogue& e, float* c, int64_t count, const float* residual) = nullptr;
  // The whole epilogue but the bias, from a dense scratch tile [rows][from_row] to `columns`
  // columns of a plain row-major result, which need not be a whole number of vectors.
  void (*finish_columns)(const Epilogue& e, const float* from, int64_t from_row, float* c,
                         int64_t c_row, int rows, int columns, const float* residual) = nullptr;
};

const TileSet& tile_set(Isa isa);

// The scratch `Tap` of reductions without taps.
inline constexpr Tap kNoTap{0, 0};

// Activations that Tile applies in registers; the others need TileSet::finish afterwards.
constexpr bool tile_applies(Activation a) {
  return a == Activation::kNone || a == Activation::kRelu || a == Activation::kClip;
}

// Sets the epilogue fields of `tile` for the last part of a reduction; pointers excepted.
inline void set_epilogue(Tile& tile, const Epilogue& e) {
  tile.relu = e.activation == Activation::kRelu;
  tile.clamp = e.activation == Activation::kClip;
  tile.lo = e.alpha;
  tile.hi = e.beta;
  tile.residual_after = e.residual_after_activation;
}

// Up to so many rows a tile takes weights as fast as memory gives them, and the processor reads
// ahead by itself; a second stream would only disturb the first.
inline constexpr int64_t kStreamingRows = 4;

// Lets tile number `index` of the `tiles` over the same B read its share of the `values` at `next`,
// which come after it. Even shares keep memory busy from the first tile to the last. `rows`: of all
// these tiles.
inline void set_prefetch(Tile& tile, const float* next, int64_t values, int64_t index,
                         int64_t tiles, int64_t rows) {
  if (rows <= kStreamingRows) values = 0;
  constexpr int64_t kUnit = 64;
  const int64_t share = (values / kUnit + tiles) / tiles * kUnit;
  tile.prefetch = next + std::min(index * share, values);
  tile.prefetch_end = next + std::min((index + 1) * share, values);
}

// Most rows of a tile, up to `most`, whose values at the same step stay in L1 together when rows of
// A are `row` values apart: rows that are a multiple of 4 KiB apart share one set of it.
inline int rows_in_l1(int most, int64_t row) {
  constexpr int64_t kWayBytes = 4096;
  if (row * static_cast<int64_t>(sizeof(float)) % kWayBytes != 0) return most;
  const int64_t ways = cpu_info().l1d_bytes / kWayBytes;
  return static_cast<int>(std::clamp<int64_t>(ways - 2, 1, most));
}

// Whether `values` of a result are more than stay in L2 until they are read again.
inline bool beyond_l2(int64_t values) {
  return values * static_cast<int64_t>(sizeof(float)) > cpu_info().l2_bytes / 2;
}

// `count` rows in tiles of at most `most`, as even as possible: tile t begins at begin(t).
struct EvenTiles {
  int64_t count, tiles;
  EvenTiles(int64_t count, int most) : count(count), tiles((count + most - 1) / most) {}
  int64_t begin(int64_t t) const { return t * count / tiles; }
};

}  // namespace stretto::kernels
