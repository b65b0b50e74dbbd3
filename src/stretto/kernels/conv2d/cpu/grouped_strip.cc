#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/conv2d/cpu/grouped_strip.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "stretto/kernels/conv2d/cpu/strip.h"
#include "stretto/kernels/simd/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::conv2d::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::at_least;
using kernels::HWY_NAMESPACE::at_most;

constexpr int kKernel = 3;

// Sums, one kernel row of weights and an input vector stay in 32 or in 16 registers.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kMostColumns = 14;
#else
constexpr int kMostColumns = 8;
#endif

// Channel kChannel of every group, copied to all lanes of its group.
template <int kGroup, int kChannel, class D, class V = hn::Vec<D>>
HWY_INLINE V spread(D d, V v) {
  if constexpr (kGroup == 2) {
    (void)d;
    return kChannel == 0 ? hn::DupEven(v) : hn::DupOdd(v);
  } else if constexpr (kGroup == 4) {
    (void)d;
    return hn::Broadcast<kChannel>(v);
  } else {
    constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
    HWY_ALIGN int32_t from[kLanes];
    for (int i = 0; i < kLanes; ++i) from[i] = i / kGroup * kGroup + kChannel;
    return hn::TableLookupLanes(v, hn::SetTableIndices(d, from));
  }
}

// Adds one channel of every group for one kernel row. Only the outermost positions can lie outside.
template <int kGroup, int kChannel, int kStride, int kColumns, bool kEdge, class D,
          class V = hn::Vec<D>>
HWY_INLINE void add_channel(D d, const float* HWY_RESTRICT in, const float* HWY_RESTRICT weights,
                            int64_t first, int64_t last, V (&sum)[kColumns]) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kPositions = (kColumns - 1) * kStride + kKernel;
  V w[kKernel];
#pragma GCC unroll 4
  for (int s = 0; s < kKernel; ++s) w[s] = hn::Load(d, weights + (kChannel * kKernel + s) * kLanes);
#pragma GCC unroll 40
  for (int i = 0; i < kPositions; ++i) {
    if constexpr (kEdge) {
      const bool outer = i < kKernel - 1 || i > kPositions - kKernel;
      if (outer && (i < first || i >= last)) continue;
    }
    const V v = spread<kGroup, kChannel>(d, hn::LoadU(d, in + i * kLanes));
#pragma GCC unroll 4
    for (int s = 0; s < kKernel; ++s) {
      if (i >= s && (i - s) % kStride == 0 && (i - s) / kStride < kColumns) {
        sum[(i - s) / kStride] = hn::MulAdd(v, w[s], sum[(i - s) / kStride]);
      }
    }
  }
}

template <int kGroup, int kStride, int kColumns, bool kEdge, class D, class V, size_t... kChannel>
HWY_INLINE void add_row(D d, const float* HWY_RESTRICT in, const float* HWY_RESTRICT weights,
                        int64_t first, int64_t last, V (&sum)[kColumns],
                        std::index_sequence<kChannel...>) {
  (add_channel<kGroup, kChannel, kStride, kColumns, kEdge>(d, in, weights, first, last, sum), ...);
}

template <int kGroup, int kStride, int kColumns>
void strip(const Strip& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr auto kChannels = std::make_index_sequence<kGroup>();
  const V bias = hn::LoadU(d, t.bias), lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
  const bool edge = t.first > 0 || t.last < (kColumns - 1) * kStride + kKernel;
  float* HWY_RESTRICT out = t.out;
  for (int64_t y = t.y_begin; y < t.y_end; ++y, out += t.out_row) {
    const int64_t top = y * kStride - t.pad_top;
    const int64_t r_begin = std::max<int64_t>(0, -top);
    const int64_t r_end = std::min<int64_t>(kKernel, t.in_h - top);
    V sum[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) sum[c] = bias;
    for (int64_t r = r_begin; r < r_end; ++r) {
      const float* in = t.in + (top + r) * t.in_row;
      const float* weights = t.weights + r * kGroup * kKernel * kLanes;
      if (edge) {
        add_row<kGroup, kStride, kColumns, true>(d, in, weights, t.first, t.last, sum, kChannels);
      } else {
        add_row<kGroup, kStride, kColumns, false>(d, in, weights, 0, 0, sum, kChannels);
      }
    }
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      hn::StoreU(at_most(hi, at_least(lo, sum[c])), d, out + c * kLanes);
    }
  }
}

template <int kGroup, int kStride, size_t... kIndex>
StripRun pick(int columns, std::index_sequence<kIndex...>) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<float>()));
  if constexpr (kGroup < kLanes) {
    // Static: what packs for another machine asks this too, and may not run instructions of its
    // set.
    static constexpr StripRun kAll[] = {&strip<kGroup, kStride, static_cast<int>(kIndex) + 1>...};
    return kAll[columns - 1];
  }
  return nullptr;
}

}  // namespace

int get_grouped_columns() { return kMostColumns; }

StripRun get_grouped_kernel(int group, int stride, int columns) {
  constexpr auto kColumns = std::make_index_sequence<kMostColumns>();
  if (columns < 1 || columns > kMostColumns) return nullptr;
  switch (group * 10 + stride) {
    case 21:
      return pick<2, 1>(columns, kColumns);
    case 22:
      return pick<2, 2>(columns, kColumns);
    case 41:
      return pick<4, 1>(columns, kColumns);
    case 42:
      return pick<4, 2>(columns, kColumns);
    case 81:
      return pick<8, 1>(columns, kColumns);
    case 82:
      return pick<8, 2>(columns, kColumns);
    default:
      return nullptr;
  }
}

}  // namespace stretto::kernels::conv2d::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::conv2d {

StripRun grouped_strip(Isa isa, int group, int stride, int columns) {
  return STRETTO_ISA_SELECT(isa, get_grouped_kernel)(group, stride, columns);
}

int grouped_strip_columns(Isa isa) { return STRETTO_ISA_SELECT(isa, get_grouped_columns)(); }

}  // namespace stretto::kernels::conv2d
#endif
