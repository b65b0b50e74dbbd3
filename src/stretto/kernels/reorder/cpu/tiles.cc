// Square tiles of lanes x lanes, transposed in registers. Limit: memory bandwidth; a tile costs
// about two loads and two shuffles per vector, less than the stores of a copy from the second-level
// cache.
#include "stretto/kernels/reorder/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/reorder/cpu/tiles.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace reorder_tiles {

constexpr int64_t kChunk = 256;  // pixels per piece of work: 16 KB of each side at 16 lanes

// Pixels [begin, end) of x[real][plane] to y[plane][lanes], or back. The last tile of a range
// overlaps its neighbour where it can: the same values are written twice.
template <bool kToBlocked, class D>
HWY_INLINE void convert(D d, const float* x, float* y, int64_t plane, int64_t real, int64_t begin,
                        int64_t end) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  HWY_ALIGN float tile[kLanes * kLanes];
  HWY_ALIGN float turned[kLanes * kLanes];
  for (int64_t at = begin; at < end; at += kLanes) {
    if (at > begin) at = HWY_MIN(at, end - kLanes);
    const int64_t pixels = HWY_MIN(end - at, kLanes);
    if (pixels == kLanes && real == kLanes) {
      if constexpr (kToBlocked) {
        transpose_square(d, x + at, plane, y + at * kLanes, kLanes);
      } else {
        transpose_square(d, x + at * kLanes, kLanes, y + at, plane);
      }
      continue;
    }
    for (int64_t i = 0; i < kLanes; ++i) {
      auto row = hn::Zero(d);
      if (kToBlocked && i < real) row = load_n(d, x + i * plane + at, pixels);
      if (!kToBlocked && i < pixels) row = hn::LoadU(d, x + (at + i) * kLanes);
      hn::Store(row, d, tile + i * kLanes);
    }
    transpose_square(d, tile, kLanes, turned, kLanes);
    for (int64_t i = 0; i < (kToBlocked ? pixels : real); ++i) {
      const auto row = hn::Load(d, turned + i * kLanes);
      if (kToBlocked) {
        hn::StoreU(row, d, y + (at + i) * kLanes);
      } else {
        store_n(row, d, y + i * plane + at, pixels);
      }
    }
  }
}

}  // namespace reorder_tiles

void reorder_run(const ReorderProblem& p, const float* x, float* y, const Worker& worker) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  constexpr int64_t kChunk = reorder_tiles::kChunk;
  const bool to_blocked = p.to == Layout::kBlocked;
  const int64_t plane = p.h * p.w, blocks = (p.c + kLanes - 1) / kLanes;
  const int64_t chunks = (plane + kChunk - 1) / kChunk;
  const Range work = split(p.n * blocks * chunks, worker);
  for (int64_t i = work.begin; i < work.end; ++i) {
    const int64_t n = i / chunks / blocks, block = i / chunks % blocks;
    const int64_t real = HWY_MIN(kLanes, p.c - block * kLanes);
    const int64_t plain_at = (n * p.c + block * kLanes) * plane;
    const int64_t blocked_at = (n * blocks + block) * plane * kLanes;
    const float* from = x + (to_blocked ? plain_at : blocked_at);
    float* to = y + (to_blocked ? blocked_at : plain_at);
    const int64_t begin = i % chunks * kChunk, end = HWY_MIN(begin + kChunk, plane);
    if (plane == 1) {
      store_n(load_n(d, from, real), d, to, real);
    } else if (to_blocked) {
      reorder_tiles::convert<true>(d, from, to, plane, real, begin, end);
    } else {
      reorder_tiles::convert<false>(d, from, to, plane, real, begin, end);
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::reorder {
namespace {

Fit fits(const ReorderProblem& p) {
  return p.from == p.to ? Fit::no("a copy, not a reorder") : Fit::yes(0.7);
}

void run(const ReorderProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, reorder_run)
  (p, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]), worker);
}

}  // namespace

const Row kTiles{.name = "tiles", .fits = fits, .run = run};

}  // namespace stretto::kernels::reorder
#endif
