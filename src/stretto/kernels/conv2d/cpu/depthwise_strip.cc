#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/conv2d/cpu/depthwise_strip.cc"
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

// Sums, one kernel row of weights and an input vector stay in 32 or in 16 registers.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kMostColumns = 14, kMostAnyColumns = 14;
#else
constexpr int kMostColumns = 7, kMostAnyColumns = 12;
#endif

// Which positions of a strip can lie outside the input: those over the taps left of the last and
// right of the first one, or all.
enum class Outside { kNone, kEnds, kAny };

// Adds neighbouring taps of a kernel row.
template <int kTaps, int kStride, int kColumns, Outside kOutside, class D, class V = hn::Vec<D>>
HWY_INLINE void add_taps(D d, const float* HWY_RESTRICT in, const float* HWY_RESTRICT weights,
                         int64_t first, int64_t last, V (&sum)[kColumns]) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kPositions = (kColumns - 1) * kStride + kTaps;
  V w[kTaps];
#pragma GCC unroll 8
  for (int s = 0; s < kTaps; ++s) w[s] = hn::Load(d, weights + s * kLanes);
#pragma GCC unroll 40
  for (int i = 0; i < kPositions; ++i) {
    if constexpr (kOutside != Outside::kNone) {
      const bool end = i < kTaps - 1 || i > kPositions - kTaps;
      if ((kOutside == Outside::kAny || end) && (i < first || i >= last)) continue;
    }
    const V v = hn::LoadU(d, in + i * kLanes);
#pragma GCC unroll 8
    for (int s = 0; s < kTaps; ++s) {
      if (i >= s && (i - s) % kStride == 0 && (i - s) / kStride < kColumns) {
        sum[(i - s) / kStride] = hn::MulAdd(v, w[s], sum[(i - s) / kStride]);
      }
    }
  }
}

template <int kKernel, int kStride, int kColumns>
void strip(const Strip& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
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
      const float* weights = t.weights + r * kKernel * kLanes;
      if (edge) {
        add_taps<kKernel, kStride, kColumns, Outside::kEnds>(d, in, weights, t.first, t.last, sum);
      } else {
        add_taps<kKernel, kStride, kColumns, Outside::kNone>(d, in, weights, 0, 0, sum);
      }
    }
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      hn::StoreU(at_most(hi, at_least(lo, sum[c])), d, out + c * kLanes);
    }
  }
}

// Adds taps of a kernel row whose first one lies `at` columns right of the strip's.
template <int kTaps, int kStride, int kColumns, class D, class V = hn::Vec<D>>
HWY_INLINE void add_seen(D d, const Strip& t, int64_t at, const float* in, const float* weights,
                         V (&sum)[kColumns]) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int64_t kLast = (kColumns - 1) * kStride + kTaps - 1;
  const int64_t first = t.first - at, last = t.last - at;
  in += at * kLanes;
  if (first <= 0 && kLast < last) {
    add_taps<kTaps, kStride, kColumns, Outside::kNone>(d, in, weights, 0, 0, sum);
  } else if (first <= kLast && 0 < last) {
    add_taps<kTaps, kStride, kColumns, Outside::kAny>(d, in, weights, first, last, sum);
  }
}

template <int kStride, int kColumns>
void any_strip(const Strip& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const V bias = hn::LoadU(d, t.bias), lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
  constexpr int kTaps = any_strip_taps(kStride, 1);
  float* HWY_RESTRICT out = t.out;
  for (int64_t y = t.y_begin; y < t.y_end; ++y, out += t.out_row) {
    const int64_t top = y * t.stride_h - t.pad_top;
    V sum[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) sum[c] = bias;
    const float* weights = t.weights;
    for (int64_t r = 0; r < t.kernel_h; ++r, weights += t.kernel_w * kLanes) {
      const int64_t row = top + r * t.dilation_h;
      if (row < 0 || row >= t.in_h) continue;
      const float* in = t.in + row * t.in_row;
      int64_t at = 0;
      for (; kTaps > 1 && t.dilation_w == 1 && at + kTaps <= t.kernel_w; at += kTaps) {
        add_seen<kTaps, kStride>(d, t, at, in, weights + at * kLanes, sum);
      }
      for (; at < t.kernel_w; ++at) {
        add_seen<1, kStride>(d, t, at * t.dilation_w, in, weights + at * kLanes, sum);
      }
    }
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      hn::StoreU(at_most(hi, at_least(lo, sum[c])), d, out + c * kLanes);
    }
  }
}

// Tables are static: one that is made at each call is made by vector instructions, and kernels are
// asked for on machines that lack them, too.
template <int kKernel, int kStride, size_t... kIndex>
StripRun pick(int columns, std::index_sequence<kIndex...>) {
  static constexpr StripRun kAll[] = {&strip<kKernel, kStride, static_cast<int>(kIndex) + 1>...};
  return kAll[columns - 1];
}

template <int kStride, size_t... kIndex>
StripRun pick_any(int columns, std::index_sequence<kIndex...>) {
  static constexpr StripRun kAll[] = {&any_strip<kStride, static_cast<int>(kIndex) + 1>...};
  return kAll[columns - 1];
}

}  // namespace

int get_depthwise_columns() { return kMostColumns; }
int get_any_depthwise_columns() { return kMostAnyColumns; }

StripRun get_depthwise_kernel(int kernel, int stride, int columns) {
  constexpr auto kColumns = std::make_index_sequence<kMostColumns>();
  if (columns < 1 || columns > kMostColumns) return nullptr;
  switch (kernel * 10 + stride) {
    case 31:
      return pick<3, 1>(columns, kColumns);
    case 32:
      return pick<3, 2>(columns, kColumns);
    case 51:
      return pick<5, 1>(columns, kColumns);
    case 52:
      return pick<5, 2>(columns, kColumns);
    case 71:
      return pick<7, 1>(columns, kColumns);
    case 72:
      return pick<7, 2>(columns, kColumns);
    default:
      return nullptr;
  }
}

StripRun get_any_depthwise_kernel(int stride, int columns) {
  constexpr auto kColumns = std::make_index_sequence<kMostAnyColumns>();
  if (columns < 1 || columns > kMostAnyColumns) return nullptr;
  switch (stride) {
    case 1:
      return pick_any<1>(columns, kColumns);
    case 2:
      return pick_any<2>(columns, kColumns);
    default:
      return nullptr;
  }
}

}  // namespace stretto::kernels::conv2d::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::conv2d {

StripRun depthwise_strip(Isa isa, int kernel, int stride, int columns) {
  return STRETTO_ISA_SELECT(isa, get_depthwise_kernel)(kernel, stride, columns);
}

StripRun any_depthwise_strip(Isa isa, int stride, int columns) {
  return STRETTO_ISA_SELECT(isa, get_any_depthwise_kernel)(stride, columns);
}

int any_depthwise_strip_columns(Isa isa) {
  return STRETTO_ISA_SELECT(isa, get_any_depthwise_columns)();
}

int depthwise_strip_columns(Isa isa) { return STRETTO_ISA_SELECT(isa, get_depthwise_columns)(); }

}  // namespace stretto::kernels::conv2d
#endif
