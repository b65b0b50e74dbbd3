// Rows are widened to 16 bits first, their zero point taken off; then a multiplication of 16-bit
// lanes adds two neighbouring products in each 32-bit lane (vpmaddwd), and no sum saturates.
// The limit is two instructions, a multiplication and an addition, per two products in each lane.
#include <cstring>

#include "stretto/kernels/matmul_integer/candidates.h"
#include "stretto/kernels/matmul_integer/cpu/plan.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/matmul_integer/cpu/pairs.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {

// `pairs` pairs of 16-bit numbers of each row, `row_pairs` from row to row.
struct PairTile {
  const int32_t* x;
  int64_t row_pairs, pairs;
  const int16_t* weights;
  const float *scale, *bias;
  int64_t scale_step;  // 0: one for all columns
  float* y;
  int64_t stride, columns;
};

template <int kRows, int kVectors>
HWY_NOINLINE void pair_tile(const PairTile& t) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::Repartition<int16_t, decltype(d)> d16;
  using Sum = hn::Vec<decltype(d32)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Sum low[kRows][kVectors], high[kRows][kVectors];
  HWY_PRAGMA(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    HWY_PRAGMA(GCC unroll 8)
    for (int v = 0; v < kVectors; ++v) low[r][v] = high[r][v] = hn::Zero(d32);
  }
  const int16_t* weights = t.weights;
  for (int64_t i = 0; i < t.pairs; ++i) {
    hn::Vec<decltype(d16)> w[kVectors];
    HWY_PRAGMA(GCC unroll 8)
    for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d16, weights + 2 * lanes * v);
    weights += 2 * lanes * kVectors;
    HWY_PRAGMA(GCC unroll 8)
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::BitCast(d16, hn::Set(d32, t.x[r * t.row_pairs + i]));
      HWY_PRAGMA(GCC unroll 8)
      for (int v = 0; v < kVectors; ++v) {
        low[r][v] = hn::ReorderWidenMulAccumulate(d32, x, w[v], low[r][v], high[r][v]);
      }
    }
  }
  HWY_PRAGMA(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    HWY_PRAGMA(GCC unroll 8)
    for (int v = 0; v < kVectors; ++v) {
      const int64_t n = v * lanes;
      if (n >= t.columns) continue;
      const int64_t count = HWY_MIN(lanes, t.columns - n);
      const auto sum = hn::ConvertTo(d, hn::RearrangeToOddPlusEven(low[r][v], high[r][v]));
      const auto scale = t.scale_step ? load_n(d, t.scale + n, count) : hn::Set(d, t.scale[0]);
      store_n(hn::MulAdd(sum, scale, load_n(d, t.bias + n, count)), d, t.y + r * t.stride + n,
              count);
    }
  }
}

template <int kVectors>
HWY_INLINE void pair_rows(int rows, const PairTile& t) {
  switch (rows) {
    case 1:
      return pair_tile<1, kVectors>(t);
    case 2:
      return pair_tile<2, kVectors>(t);
    case 3:
      return pair_tile<3, kVectors>(t);
    case 4:
      return pair_tile<4, kVectors>(t);
    case 5:
      return pair_tile<5, kVectors>(t);
    default:
      return pair_tile<6, kVectors>(t);
  }
}

void run_pair_tile(int rows, int vectors, const PairTile& t) {
  vectors == 1 ? pair_rows<1>(rows, t) : pair_rows<2>(rows, t);
}

// x - zero in 16 bits, rows filled up with a zero to whole pairs.
void widen_pairs(const MatmulIntegerProblem& p, const uint8_t* x, int32_t zero, int64_t begin,
                 int64_t end, int16_t* to) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const hn::Rebind<int8_t, decltype(d16)> s8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d16)), even = (p.k + 1) / 2 * 2;
  const auto zeros = hn::Set(d16, static_cast<int16_t>(zero));
  for (int64_t m = begin; m < end; ++m) {
    const uint8_t* from = x + m * p.k;
    int16_t* row = to + m * even;
    int64_t k = 0;
    for (; k + lanes <= p.k; k += lanes) {
      const auto bytes = hn::LoadU(d8, from + k);
      const auto wide =
          p.is_signed ? hn::PromoteTo(d16, hn::BitCast(s8, bytes)) : hn::PromoteTo(d16, bytes);
      hn::StoreU(hn::Sub(wide, zeros), d16, row + k);
    }
    for (; k < p.k; ++k) {
      const int32_t element = p.is_signed ? static_cast<int8_t>(from[k]) : from[k];
      row[k] = static_cast<int16_t>(element - zero);
    }
    if (even != p.k) row[p.k] = 0;
  }
}

void run_pairs(const MatmulIntegerProblem& p, const Args& args, const Worker& worker) {
  namespace own = ::stretto::kernels::matmul_integer;
  const own::IntegerPlan plan = own::make_integer_plan(p, 2);
  const int64_t pairs = (p.k + 1) / 2;
  if (worker.phase == 0) {
    const Range rows = split(p.m, worker);
    widen_pairs(p, static_cast<const uint8_t*>(args.inputs[0]), own::zero_point(p, args),
                rows.begin, rows.end, reinterpret_cast<int16_t*>(args.scratch));
    return;
  }
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const auto* weights = reinterpret_cast<const int16_t*>(bias + plan.columns);
  PairTile tile;
  tile.row_pairs = tile.pairs = pairs;
  tile.scale_step = p.scale_per_column;
  tile.stride = p.n;
  const GridPart grid = split_grid(p.m, plan.panels.count, worker, p.m, p.n);
  const EvenTiles tiles(grid.rows.end - grid.rows.begin, own::kMostRows);
  for (int64_t panel = grid.columns.begin; panel < grid.columns.end; ++panel) {
    const int64_t n0 = plan.panels.begin(panel) * plan.lanes;
    const int vectors = static_cast<int>(plan.panels.vectors(panel));
    tile.weights = weights + n0 * pairs * 2;
    tile.bias = bias + n0;
    tile.scale = static_cast<const float*>(args.inputs[1]) + (p.scale_per_column ? n0 : 0);
    tile.columns = p.n - n0;
    for (int64_t t = 0; t < tiles.tiles; ++t) {
      const int64_t m = grid.rows.begin + tiles.begin(t);
      tile.x = reinterpret_cast<const int32_t*>(args.scratch) + m * pairs;
      tile.y = static_cast<float*>(args.outputs[0]) + m * p.n + n0;
      run_pair_tile(static_cast<int>(tiles.begin(t + 1) - tiles.begin(t)), vectors, tile);
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::matmul_integer {
namespace {

Fit pairs_fit(const MatmulIntegerProblem& p) {
  return Fit::yes(1.2 * weight_reuse(p.target, static_cast<double>(p.m), 6) * p.k / (p.k + 8.0));
}

std::string pairs_packing(const MatmulIntegerProblem& p) {
  const IntegerPlan plan = make_integer_plan(p, 2);
  return packing_text("matmul_integer_pairs", 1, plan.lanes, plan.panels.count);
}

size_t pairs_bytes(const MatmulIntegerProblem& p) {
  const IntegerPlan plan = make_integer_plan(p, 2);
  return static_cast<size_t>(plan.columns) *
         (sizeof(float) + static_cast<size_t>((p.k + 1) / 2 * 2) * sizeof(int16_t));
}

void pack_pairs(const MatmulIntegerProblem& p, std::span<const Tensor> constants,
                std::byte* packed) {
  const IntegerPlan plan = make_integer_plan(p, 2);
  float* bias = reinterpret_cast<float*>(packed);
  for (int64_t n = 0; n < plan.columns; ++n) {
    bias[n] = p.bias && n < p.n ? constants[1].values<float>()[static_cast<size_t>(n)] : 0;
  }
  pack_groups(p, plan, 2, constants[0].values<int8_t>().data(),
              reinterpret_cast<int16_t*>(bias + plan.columns));
}

size_t pairs_scratch(const MatmulIntegerProblem& p) {
  return static_cast<size_t>(p.m * ((p.k + 1) / 2 * 2)) * sizeof(int16_t);
}

int two_phases(const MatmulIntegerProblem&) { return 2; }

void run(const MatmulIntegerProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, run_pairs)(p, args, worker);
}

}  // namespace

const Row kPairs{.name = "pairs",
                 .fits = pairs_fit,
                 .packed_bytes = pairs_bytes,
                 .pack = pack_pairs,
                 .packing = pairs_packing,
                 .scratch_bytes = pairs_scratch,
                 .phases = two_phases,
                 .run = run};

}  // namespace stretto::kernels::matmul_integer
#endif
