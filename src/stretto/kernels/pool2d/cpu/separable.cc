// A window is reduced over its columns into one padded row, then along that row. Both layouts are
// one algorithm: a blocked row is a plain one whose pixels are vectors. Limit: reading x from the
// cache.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "stretto/kernels/pool2d/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/pool2d/cpu/separable.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

#ifndef STRETTO_KERNELS_POOL2D_SEPARABLE_
#define STRETTO_KERNELS_POOL2D_SEPARABLE_
namespace stretto::kernels::pool2d {

// Pixels of the padded row that windows read, and a vector or two that stride-2 loads may read.
inline int64_t row_pixels(const Pool2dProblem& p) {
  const int64_t reach = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1;
  return std::max<int64_t>(reach, p.pad_left + p.w);
}
inline int64_t row_bytes(const Pool2dProblem& p) {
  const int64_t pixel = p.layout == Layout::kBlocked ? p.target.block() : 1;
  const auto width = static_cast<int64_t>(dtype_bytes(p.dtype));
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  return round_up(row_pixels(p) * pixel * width + 4 * p.target.lanes() * kFloat, 64);
}
// Per thread: the row, then 1 / count of each output column.
inline int64_t thread_bytes(const Pool2dProblem& p) {
  return row_bytes(p) + round_up(p.out_w, 16) * static_cast<int64_t>(sizeof(float));
}

}  // namespace stretto::kernels::pool2d
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace pool2d_separable {

template <class D>
using IsFloat = std::is_same<hn::TFromD<D>, float>;

template <bool kMax, class D, class V = hn::Vec<D>>
HWY_INLINE V join(D d, V a, V b) {
  if constexpr (!kMax) {
    return hn::Add(a, b);
  } else if constexpr (IsFloat<D>::value) {
    return max_nan(d, a, b);
  } else {
    return hn::Max(a, b);
  }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_some(D d, const T* p, int64_t count) {
  if constexpr (IsFloat<D>::value) {
    return load_n(d, p, count);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
    std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
    return hn::Load(d, buffer);
  }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_some(hn::Vec<D> v, D d, T* p, int64_t count) {
  if constexpr (IsFloat<D>::value) {
    store_n(v, d, p, count);
  } else {
    if (count >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, p);
    HWY_ALIGN T buffer[hn::MaxLanes(d)];
    hn::Store(v, d, buffer);
    std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
  }
}

// row[i] = x[i] joined over `rows` rows that lie `stride` elements apart.
template <bool kMax, class D, class T = hn::TFromD<D>>
HWY_INLINE void join_columns(D d, const T* x, int64_t stride, int rows, T* row, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const int64_t n = HWY_MIN(lanes, count - i);
    if (HWY_LIKELY(n == lanes)) {
      auto v = hn::LoadU(d, x + i);
      for (int r = 1; r < rows; ++r) v = join<kMax>(d, v, hn::LoadU(d, x + r * stride + i));
      hn::StoreU(v, d, row + i);
    } else {
      auto v = load_some(d, x + i, n);
      for (int r = 1; r < rows; ++r) v = join<kMax>(d, v, load_some(d, x + r * stride + i, n));
      store_some(v, d, row + i, n);
    }
  }
}

template <typename T, bool kMax>
void run(const Pool2dProblem& p, const Args& args, std::byte* scratch, const Worker& worker) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  T* row = reinterpret_cast<T*>(scratch);
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool blocked = p.layout == Layout::kBlocked;
  const int64_t pixel = blocked ? lanes : 1;
  const int64_t planes = p.n * (blocked ? (p.c + lanes - 1) / lanes : p.c);
  using Limits = std::numeric_limits<T>;
  constexpr T kLeast = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const T identity = kMax ? kLeast : T(0);
  const int64_t row_bytes = pool2d::row_bytes(p);
  float* inverse = reinterpret_cast<float*>(scratch + row_bytes);
  std::fill_n(row, row_bytes / static_cast<int64_t>(sizeof(T)), identity);
  for (int64_t ox = 0; ox < p.out_w && !kMax; ++ox) {
    const WindowRange k =
        window_range(ox, p.w, p.kernel_w, p.stride_w, p.dilation_w, p.pad_left, p.pad_right);
    const int count = p.count_include_pad ? k.padded : HWY_MAX(0, k.end - k.begin);
    inverse[ox] = count ? 1.0f / count : 0;
  }
  const int64_t step = p.dilation_w * pixel;

  const Range work = split(planes * p.out_h, worker);
  for (int64_t job = work.begin; job < work.end; ++job) {
    const int64_t oy = job % p.out_h;
    const WindowRange k =
        window_range(oy, p.h, p.kernel_h, p.stride_h, p.dilation_h, p.pad_top, p.pad_bottom);
    T* out = y + job * p.out_w * pixel;
    const int rows = k.end - k.begin;
    const int count = p.count_include_pad ? k.padded : rows;
    [[maybe_unused]] const float scale_y = count > 0 ? 1.0f / count : 0.0f;
    if (rows <= 0) {
      std::fill_n(out, p.out_w * pixel, identity);
      continue;
    }
    const int64_t iy = oy * p.stride_h - p.pad_top + k.begin * p.dilation_h;
    join_columns<kMax>(d, x + (job / p.out_h * p.h + iy) * p.w * pixel, p.dilation_h * p.w * pixel,
                       rows, row + p.pad_left * pixel, p.w * pixel);

    if (blocked) {
      for (int64_t ox = 0; ox < p.out_w; ++ox) {
        const T* at = row + ox * p.stride_w * pixel;
        V v = hn::LoadU(d, at);
        for (int s = 1; s < p.kernel_w; ++s) v = join<kMax>(d, v, hn::LoadU(d, at + s * step));
        if constexpr (!kMax) v = hn::Mul(v, hn::Mul(hn::Set(d, scale_y), hn::Set(d, inverse[ox])));
        hn::StoreU(v, d, out + ox * pixel);
      }
    } else if (p.stride_w <= 2) {
      for (int64_t ox = 0; ox < p.out_w; ox += lanes) {
        const int64_t n = HWY_MIN(lanes, p.out_w - ox);
        V v = hn::Set(d, identity);
        for (int s = 0; s < p.kernel_w; ++s) {
          const T* at = row + ox * p.stride_w + s * step;
          V tap, odd;
          if (p.stride_w == 2) {
            hn::LoadInterleaved2(d, at, tap, odd);
          } else {
            tap = hn::LoadU(d, at);
          }
          v = join<kMax>(d, v, tap);
        }
        if constexpr (!kMax) {
          v = hn::Mul(v, hn::Mul(hn::Set(d, scale_y), load_n(d, inverse + ox, n)));
        }
        store_some(v, d, out + ox, n);
      }
    } else {
      for (int64_t ox = 0; ox < p.out_w; ++ox) {
        T v = row[ox * p.stride_w];
        for (int s = 1; s < p.kernel_w; ++s) {
          const T tap = row[ox * p.stride_w + s * step];
          v = !kMax ? static_cast<T>(v + tap) : tap != tap || v < tap ? tap : v;
        }
        if constexpr (!kMax) v *= scale_y * inverse[ox];
        out[ox] = v;
      }
    }
  }
}

}  // namespace pool2d_separable

void pool2d_run(const Pool2dProblem& p, const Args& args, std::byte* scratch,
                const Worker& worker) {
  using namespace pool2d_separable;
  if (p.kind == Pooling::kAverage) return run<float, false>(p, args, scratch, worker);
  switch (p.dtype) {
    case DType::kUInt8:
      return run<uint8_t, true>(p, args, scratch, worker);
    case DType::kInt8:
      return run<int8_t, true>(p, args, scratch, worker);
    default:
      return run<float, true>(p, args, scratch, worker);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::pool2d {
namespace {

Fit fits(const Pool2dProblem& p) {
  if (p.dtype != DType::kFloat32 && (p.layout != Layout::kPlain || p.kind != Pooling::kMax)) {
    return Fit::no("bytes: only maxima in the plain layout");
  }
  return Fit::yes(0.3);
}

size_t scratch_bytes(const Pool2dProblem& p) {
  return static_cast<size_t>(p.target.threads * thread_bytes(p));
}

void run(const Pool2dProblem& p, const Args& args, const Worker& worker) {
  std::byte* scratch = args.scratch + worker.thread * thread_bytes(p);
  STRETTO_ISA_SELECT(p.target.isa, pool2d_run)(p, args, scratch, worker);
}

}  // namespace

const Row kSeparable{.name = "separable", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::pool2d
#endif
