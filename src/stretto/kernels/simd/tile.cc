#include "stretto/kernels/simd/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/simd/tile.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <utility>

#include "stretto/kernels/simd/activation-inl.h"
#include "stretto/kernels/simd/clamp-inl.h"
#include "stretto/kernels/simd/tile_assembly.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace {

// 32 vector registers hold 28 sums, two vectors of B and a broadcast; 16 hold 12 sums. Arm's 32
// hold two steps of B beside the sums, and the next values of A: see two_steps. Index: vectors.
#if HWY_ARCH_ARM_A64
constexpr int kMostRows[TileSet::kMaxVectors + 1] = {0, 14, 12, 8, 5};
#elif HWY_TARGET <= HWY_AVX3
constexpr int kMostRows[TileSet::kMaxVectors + 1] = {0, 14, 14, 9, 6};
#else
constexpr int kMostRows[TileSet::kMaxVectors + 1] = {0, 12, 6, 4, 3};
#endif

// What the sums start from.
template <int kRows, int kVectors, class V>
HWY_INLINE void load(const Tile& t, V (&sum)[kRows][kVectors]) {
  const hn::ScalableTag<float> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  if (t.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::LoadU(d, t.c + r * t.c_row + v * t.c_vector);
      }
    }
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const V init = t.bias ? hn::LoadU(d, t.bias + v * kLanes) : hn::Zero(d);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r][v] = init;
    }
  }
}

// Sums to memory, with the parts of the epilogue that Tile applies.
template <int kRows, int kVectors, class V>
HWY_INLINE void store(const Tile& t, V (&sum)[kRows][kVectors]) {
  const hn::ScalableTag<float> d;
  const auto add_residual = [&]() HWY_ATTR {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const float* from = t.residual + r * t.c_row + v * t.c_vector;
        sum[r][v] = hn::Add(sum[r][v], hn::LoadU(d, from));
      }
    }
  };
  if (t.residual && !t.residual_after) add_residual();
  if (t.relu) {
    const V zero = hn::Zero(d);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = at_least(zero, sum[r][v]);
    }
  } else if (t.clamp) {
    const V lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = at_most(hi, at_least(lo, sum[r][v]));
    }
  }
  if (t.residual && t.residual_after) add_residual();
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, t.c + r * t.c_row + v * t.c_vector);
    }
  }
}

#if STRETTO_TILE_ASSEMBLY && HWY_TARGET == HWY_AVX3
constexpr auto* kTiles = stretto_tiles_avx512;
#elif STRETTO_TILE_ASSEMBLY && HWY_TARGET == HWY_AVX2
constexpr auto* kTiles = stretto_tiles_avx2;
#else

// A vector of 16 floats is a line; for shorter ones the requests would cost more than they hide.
template <int kRows, int kVectors>
HWY_INLINE void fetch_results(const Tile& t) {
  if constexpr (hn::MaxLanes(hn::ScalableTag<float>()) < 16) return;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(t.c + r * t.c_row + v * t.c_vector, 1, 3);
    }
  }
  if (!t.residual) return;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(t.residual + r * t.c_row + v * t.c_vector, 0, 3);
    }
  }
}

// The next group's values lie far from these, where no hardware expects them: all rows would miss
// L1 at its first step.
template <int kRows>
HWY_INLINE void fetch_rows(const float* a, int64_t stride) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) __builtin_prefetch(a + r * stride, 0, 3);
}

#if HWY_ARCH_ARM_A64
// Two steps of every sum. AdvSIMD multiplies by one lane of a register, so a load of two values of
// A serves both steps; a broadcast would take a load and a place in the pipes that multiply (LD1R
// in Arm's Neoverse N1 Software Optimization Guide). at(r) is A's row r.
template <int kRows, int kVectors, class V, class At>
HWY_INLINE void two_steps(At at, const float* HWY_RESTRICT b, V (&sum)[kRows][kVectors]) {
  constexpr int kLanes = 4;
  float32x4_t first[kVectors], second[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    first[v] = vld1q_f32(b + v * kLanes);
    second[v] = vld1q_f32(b + (kVectors + v) * kLanes);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const float32x2_t a = vld1_f32(at(r));
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v].raw = vfmaq_lane_f32(sum[r][v].raw, first[v], a, 0);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v].raw = vfmaq_lane_f32(sum[r][v].raw, second[v], a, 1);
    }
  }
}
#endif

// Adjoining rows: A's rows and groups are one vector long, as in a map blocked by channels. Known
// when this is compiled, a row is a constant displacement.
template <int kRows, int kVectors, bool kAdjoining>
void reduce(const Tile& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  if (t.far_results) fetch_results<kRows, kVectors>(t);
  V sum[kRows][kVectors];
  load(t, sum);

  // Three rows share a pointer: x86 addresses p + stride and p + 2 * stride without another
  // register.
  constexpr int kPointers = kAdjoining ? 1 : (kRows + 2) / 3;
  constexpr int kRowsPerPointer = kAdjoining ? kRows : 3;
  const int64_t stride = kAdjoining ? kLanes : t.a_row;
  const float* HWY_RESTRICT b = t.b;
  const float* p[kPointers];
  const auto point = [&](const float* a) HWY_ATTR {
#pragma GCC unroll 8
    for (int q = 0; q < kPointers; ++q) p[q] = a + kRowsPerPointer * q * stride;
  };
  const auto step = [&](int i) HWY_ATTR {
    V bv[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) bv[v] = hn::Load(d, b + (i * kVectors + v) * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V av = hn::Set(d, p[r / kRowsPerPointer][(r % kRowsPerPointer) * stride + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(av, bv[v], sum[r][v]);
    }
  };
  const auto advance = [&](int64_t a_step, int64_t b_step) HWY_ATTR {
    b += b_step;
#pragma GCC unroll 8
    for (int q = 0; q < kPointers; ++q) p[q] += a_step;
  };
  if (!kAdjoining && t.steps == 1 && t.tap_count == 1) {
    // A lies row by row within a step: one loop instead of three.
    point(t.a + t.taps[0].a);
    b += t.taps[0].b;
    for (int32_t g = 0; g < t.groups; ++g) {
      step(0);
      advance(t.a_group, t.b_group);
    }
    store(t, sum);
    return;
  }
  // At an even pace: requests in a burst take the buffers that B needs on its way from L2.
  // Short vectors take so long for two steps that a line in each is more than memory gives.
  constexpr int64_t kLine = 16, kMostLines = kLanes >= 16 ? 2 : 1;
  const int64_t halves = (int64_t{t.groups - 1} * t.steps + t.last_steps) * t.tap_count / 2;
  const int64_t values = t.prefetch_end - t.prefetch;
  const bool reads_ahead = values > 0 && halves > 0;
  const float* ahead = reads_ahead ? t.prefetch : t.b;
  const int64_t pace =
      reads_ahead ? std::min((values + halves - 1) / halves, kMostLines * kLine) : 0;
  const int64_t second = pace > kLine ? kLine : 0;
  for (int32_t g = 0; g < t.groups; ++g) {
    const bool last = g + 1 == t.groups;
    const int64_t steps = kAdjoining ? kLanes : last ? t.last_steps : t.steps;
    if (!last && t.tap_count > 0)
      fetch_rows<kRows>(t.a + (g + 1) * t.a_group + t.taps[0].a, stride);
    for (int32_t tap = 0; tap < t.tap_count; ++tap) {
      b = t.b + g * t.b_group + t.taps[tap].b;
      point(t.a + g * t.a_group + t.taps[tap].a);
      int64_t i = 0;
      // Two steps: with more, compilers move loads so far up that sums are spilled in every
      // iteration and wait for their own stores.
#pragma GCC unroll 1
      for (; i + 2 <= steps; i += 2) {
#if HWY_ARCH_ARM_A64
        const auto row = [&](int r) {
          return p[r / kRowsPerPointer] + (r % kRowsPerPointer) * stride;
        };
        two_steps<kRows, kVectors>(row, b, sum);
#else
        step(0);
        step(1);
#endif
        __builtin_prefetch(ahead, 0, 2);
        if constexpr (kMostLines > 1) __builtin_prefetch(ahead + second, 0, 2);
        ahead += pace;
        advance(2, 2 * kVectors * kLanes);
      }
#pragma GCC unroll 1
      for (; i < steps; ++i) {
        step(0);
        advance(1, kVectors * kLanes);
      }
    }
  }
  store(t, sum);
}

template <int kRows, int kVectors>
void tile(const Tile& t) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<float>()));
  if (t.a_row == kLanes && t.steps == kLanes && t.last_steps == kLanes)
    reduce<kRows, kVectors, true>(t);
  else
    reduce<kRows, kVectors, false>(t);
}

struct Tiles {
  TileSet::Run run[TileSet::kMaxVectors + 1][TileSet::kMaxRows + 1] = {};
};

template <int kVectors, size_t... kIndex>
constexpr void fill_rows(Tiles& tiles, std::index_sequence<kIndex...>) {
  ((tiles.run[kVectors][kIndex + 1] = &tile<static_cast<int>(kIndex) + 1, kVectors>), ...);
}

constexpr Tiles make_tiles() {
  Tiles tiles;
  fill_rows<1>(tiles, std::make_index_sequence<kMostRows[1]>());
  fill_rows<2>(tiles, std::make_index_sequence<kMostRows[2]>());
  fill_rows<3>(tiles, std::make_index_sequence<kMostRows[3]>());
  fill_rows<4>(tiles, std::make_index_sequence<kMostRows[4]>());
  return tiles;
}

constexpr Tiles kAllTiles = make_tiles();
constexpr auto* kTiles = kAllTiles.run;
#endif

template <int kRows>
void lane_tile(const Tile& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V sum[kRows][1];
  load(t, sum);
  constexpr int kPointers = (kRows + 2) / 3;
  const int64_t stride = t.a_row;
  for (int32_t tap = 0; tap < t.tap_count; ++tap) {
    const V w = hn::LoadU(d, t.b + t.taps[tap].b);
    const float* a = t.a + t.taps[tap].a;
    const float* p[kPointers];
#pragma GCC unroll 8
    for (int q = 0; q < kPointers; ++q) p[q] = a + 3 * q * stride;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] = hn::MulAdd(hn::LoadU(d, p[r / 3] + (r % 3) * stride), w, sum[r][0]);
    }
  }
  store(t, sum);
}

template <Activation kActivation>
void finish_as(const Epilogue& e, float* c, int64_t c_row, int64_t c_vector, int rows, int vectors,
               const float* residual) {
  const hn::ScalableTag<float> d;
  const auto alpha = hn::Set(d, e.alpha), beta = hn::Set(d, e.beta);
  for (int v = 0; v < vectors; ++v) {
    for (int r = 0; r < rows; ++r) {
      const int64_t at = r * c_row + v * c_vector;
      auto y = activate(d, kActivation, alpha, beta, hn::LoadU(d, c + at));
      if (residual) y = hn::Add(y, hn::LoadU(d, residual + at));
      hn::StoreU(y, d, c + at);
    }
  }
}

using Finish = decltype(TileSet::finish);

template <size_t... kIndex>
constexpr Finish pick_finish(Activation a, std::index_sequence<kIndex...>) {
  constexpr Finish kAll[] = {&finish_as<static_cast<Activation>(kIndex)>...};
  return kAll[static_cast<size_t>(a)];
}

void finish(const Epilogue& e, float* c, int64_t c_row, int64_t c_vector, int rows, int vectors,
            const float* residual) {
  pick_finish(e.activation, std::make_index_sequence<kActivationCount>())(
      e, c, c_row, c_vector, rows, vectors, e.residual_after_activation ? residual : nullptr);
}

void finish_flat(const Epilogue& e, float* c, int64_t count, const float* residual) {
  const hn::ScalableTag<float> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  if (residual && !e.residual_after_activation) {
    for (int64_t i = 0; i < count; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, c + i), hn::LoadU(d, residual + i)), d, c + i);
    }
  }
  finish(e, c, kLanes, 0, static_cast<int>(count / kLanes), 1, residual);
}

void finish_columns(const Epilogue& e, const float* from, int64_t from_row, float* c, int64_t c_row,
                    int rows, int columns, const float* residual) {
  const hn::ScalableTag<float> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const auto alpha = hn::Set(d, e.alpha), beta = hn::Set(d, e.beta);
  // Masked accesses touch whole vectors on some targets; the last vector goes through the stack.
  HWY_ALIGN float part[kLanes] = {};
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < columns; j += kLanes) {
      const int count = columns - j;
      const float* extra_from = residual ? residual + r * c_row + j : part;
      float* to = c + r * c_row + j;
      if (residual && count < kLanes) {
        for (int i = 0; i < count; ++i) part[i] = extra_from[i];
        extra_from = part;
      }
      const auto extra = residual ? hn::LoadU(d, extra_from) : hn::Zero(d);
      auto y = hn::LoadU(d, from + r * from_row + j);
      if (!e.residual_after_activation) y = hn::Add(y, extra);
      y = activate(d, e.activation, alpha, beta, y);
      if (e.residual_after_activation) y = hn::Add(y, extra);
      if (count >= kLanes) {
        hn::StoreU(y, d, to);
        continue;
      }
      hn::Store(y, d, part);
      for (int i = 0; i < count; ++i) to[i] = part[i];
    }
  }
}

template <size_t... kIndex>
constexpr void fill_lane_rows(TileSet& set, std::index_sequence<kIndex...>) {
  ((set.run_lanes[kIndex + 1] = &lane_tile<static_cast<int>(kIndex) + 1>), ...);
}

constexpr TileSet make_set() {
  TileSet set;
  set.lanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<float>()));
  set.run = kTiles;
  for (int v = 1; v <= TileSet::kMaxVectors; ++v) set.max_rows[v] = kMostRows[v];
  fill_lane_rows(set, std::make_index_sequence<kMostRows[1]>());
  set.finish = &finish;
  set.finish_flat = &finish_flat;
  set.finish_columns = &finish_columns;
  return set;
}

}  // namespace

const TileSet& get_tile_set() {
  static constinit const TileSet set = make_set();
  return set;
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels {

const TileSet& tile_set(Isa isa) { return STRETTO_ISA_SELECT(isa, get_tile_set)(); }

}  // namespace stretto::kernels
#endif
