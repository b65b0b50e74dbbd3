// Either the innermost axis stays innermost: runs are copied; or the plane of the innermost input
// axis and the innermost output axis is transposed in square tiles, the other axes being loops
// around it. Limit: memory bandwidth; tiles make every cache line that is read or written be used
// whole.
#include <cstring>

#include "stretto/kernels/transpose/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/transpose/cpu/tiles.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

#ifndef STRETTO_KERNELS_TRANSPOSE_TILES_
#define STRETTO_KERNELS_TRANSPOSE_TILES_
namespace stretto::kernels::transpose {

constexpr int64_t kBand = 64;  // rows of y's innermost axis in one piece of work

// Loops outside the run or the plane: sizes and strides in x and y, in elements.
struct TransposePlan {
  int count = 0;
  int64_t size[TransposeProblem::kMaxRank], from[TransposeProblem::kMaxRank];
  int64_t to[TransposeProblem::kMaxRank], total = 1;
  bool runs = true;
  int64_t inner = 1;        // x's innermost size
  int64_t inner_to = 1;     // its stride in y
  int64_t across = 1;       // y's innermost size
  int64_t across_from = 1;  // its stride in x
};

inline TransposePlan make_plan(const TransposeProblem& p) {
  TransposePlan plan;
  int64_t from[TransposeProblem::kMaxRank] = {}, to[TransposeProblem::kMaxRank] = {};
  int64_t stride = 1;
  for (int k = p.rank - 1; k >= 0; stride *= p.dims[k--]) from[k] = stride;
  stride = 1;
  for (int k = p.rank - 1; k >= 0; stride *= p.dims[p.perm[k--]]) to[p.perm[k]] = stride;
  const int inner = p.rank - 1, across = p.perm[p.rank - 1];
  plan.runs = inner == across;
  plan.inner = p.dims[inner];
  plan.inner_to = to[inner];
  plan.across = p.dims[across];
  plan.across_from = from[across];
  for (int k = 0; k < p.rank; ++k) {
    const int axis = p.perm[k];  // in y's order: its writes are then sequential
    if (axis == inner || axis == across) continue;
    plan.size[plan.count] = p.dims[axis];
    plan.from[plan.count] = from[axis];
    plan.to[plan.count++] = to[axis];
    plan.total *= p.dims[axis];
  }
  return plan;
}

// A T that may be several smaller elements, and lie where a T may not. One by one, because GCC
// ignores the attributes of a type that depends on a template's parameter.
template <typename T>
struct AnywhereOf;
template <>
struct AnywhereOf<uint8_t> {
  typedef uint8_t Type __attribute__((may_alias));
};
template <>
struct AnywhereOf<uint16_t> {
  typedef uint16_t Type __attribute__((aligned(1), may_alias));
};
template <>
struct AnywhereOf<float> {
  typedef float Type __attribute__((aligned(1), may_alias));
};
template <>
struct AnywhereOf<uint64_t> {
  typedef uint64_t Type __attribute__((aligned(1), may_alias));
};

}  // namespace stretto::kernels::transpose
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace transpose_tiles {

using transpose::kBand;
using transpose::TransposePlan;

// y[c * to_stride + r] = x[r * from_stride + c], r < rows, c < columns.
template <typename T>
HWY_INLINE void plane(const T* x, int64_t from_stride, T* y, int64_t to_stride, int64_t rows,
                      int64_t columns) {
  constexpr int64_t kTile = 64 / sizeof(T) < 16 ? 8 : 16;
  using Anywhere = typename transpose::AnywhereOf<T>::Type;
  // Not auto, which loses the attributes.
  const Anywhere* from = reinterpret_cast<const Anywhere*>(x);
  Anywhere* to = reinterpret_cast<Anywhere*>(y);
  for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
    const int64_t end = HWY_MIN(c0 + kTile, columns);
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      const int64_t row_end = HWY_MIN(r0 + kTile, rows);
      for (int64_t c = c0; c < end; ++c) {
        for (int64_t r = r0; r < row_end; ++r) to[c * to_stride + r] = from[r * from_stride + c];
      }
    }
  }
}

HWY_INLINE void plane(const float* x, int64_t from_stride, float* y, int64_t to_stride,
                      int64_t rows, int64_t columns) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kTile = hn::MaxLanes(d);
  const int64_t whole_rows = rows / kTile * kTile, whole_columns = columns / kTile * kTile;
  for (int64_t c = 0; c < whole_columns; c += kTile) {
    for (int64_t r = 0; r < whole_rows; r += kTile) {
      transpose_square(d, x + r * from_stride + c, from_stride, y + c * to_stride + r, to_stride);
    }
  }
  plane<float>(x + whole_columns, from_stride, y + whole_columns * to_stride, to_stride, rows,
               columns - whole_columns);
  plane<float>(x + whole_rows * from_stride, from_stride, y + whole_rows, to_stride,
               rows - whole_rows, whole_columns);
}

template <typename T>
void run(const TransposeProblem& p, const T* x, T* y, const Worker& worker) {
  const TransposePlan plan = transpose::make_plan(p);
  const int64_t bands = plan.runs ? 1 : (plan.across + kBand - 1) / kBand;
  const Range work = split(plan.total * bands, worker);
  for (int64_t i = work.begin; i < work.end; ++i) {
    int64_t from = 0, to = 0;
    for (int64_t k = plan.count - 1, rest = i / bands; k >= 0; --k) {
      from += rest % plan.size[k] * plan.from[k];
      to += rest % plan.size[k] * plan.to[k];
      rest /= plan.size[k];
    }
    if (plan.runs) {
      std::memcpy(y + to, x + from, static_cast<size_t>(plan.inner) * sizeof(T));
      continue;
    }
    const int64_t band = i % bands * kBand, rows = HWY_MIN(kBand, plan.across - band);
    plane(x + from + band * plan.across_from, plan.across_from, y + to + band, plan.inner_to, rows,
          plan.inner);
  }
}

}  // namespace transpose_tiles

void transpose_run(const TransposeProblem& problem, size_t bytes, const void* x, void* y,
                   const Worker& worker) {
  using transpose_tiles::run;
  TransposeProblem p = problem;
  // An innermost axis that stays and is short, as of complex numbers, is one larger element.
  const int inner = p.rank - 1;
  const size_t whole = bytes * static_cast<size_t>(p.dims[inner]);
  if (inner > 0 && p.perm[inner] == inner && (whole == 2 || whole == 4 || whole == 8)) {
    bytes = whole;
    p.rank = inner;
  }
  switch (bytes) {
    case 1:
      return run(p, static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), worker);
    case 2:
      return run(p, static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), worker);
    case 4:
      return run(p, static_cast<const float*>(x), static_cast<float*>(y), worker);
    case 8:
      return run(p, static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y), worker);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::transpose {
namespace {

Fit fits(const TransposeProblem&) { return Fit::yes(0.5); }

void run(const TransposeProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, transpose_run)
  (p, dtype_bytes(p.dtype), args.inputs[0], args.outputs[0], worker);
}

}  // namespace

const Row kTiles{.name = "tiles", .fits = fits, .run = run};

}  // namespace stretto::kernels::transpose
#endif
