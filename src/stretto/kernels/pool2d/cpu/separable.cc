// A window is reduced over its columns into one padded row, then along that row. Both layouts are
// one algorithm: a blocked row is a plain one whose pixels are vectors. Limit: reading x from the
// cache.
#include <algorithm>
#include <limits>

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
inline int64_t row_floats(const Pool2dProblem& p) {
  const int64_t pixel = p.layout == Layout::kBlocked ? p.target.block() : 1;
  return round_up(row_pixels(p) * pixel + 4 * p.target.lanes(), 16);
}
// Per thread: the row, then 1 / count of each output column.
inline int64_t thread_floats(const Pool2dProblem& p) {
  return row_floats(p) + round_up(p.out_w, 16);
}

}  // namespace stretto::kernels::pool2d
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace pool2d_separable {

template <bool kMax, class D, class V = hn::Vec<D>>
HWY_INLINE V join(D d, V a, V b) {
  if constexpr (kMax) {
    return max_nan(d, a, b);
  } else {
    return hn::Add(a, b);
  }
}

// row[i] = x[i] joined over `rows` rows that lie `stride` floats apart.
template <bool kMax, class D>
HWY_INLINE void join_columns(D d, const float* x, int64_t stride, int rows, float* row,
                             int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const int64_t n = HWY_MIN(lanes, count - i);
    if (HWY_LIKELY(n == lanes)) {
      auto v = hn::LoadU(d, x + i);
      for (int r = 1; r < rows; ++r) v = join<kMax>(d, v, hn::LoadU(d, x + r * stride + i));
      hn::StoreU(v, d, row + i);
    } else {
      auto v = load_n(d, x + i, n);
      for (int r = 1; r < rows; ++r) v = join<kMax>(d, v, load_n(d, x + r * stride + i, n));
      store_n(v, d, row + i, n);
    }
  }
}

template <bool kMax>
void run(const Pool2dProblem& p, const float* x, float* y, float* row, const Worker& worker) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool blocked = p.layout == Layout::kBlocked;
  const int64_t pixel = blocked ? lanes : 1;
  const int64_t planes = p.n * (blocked ? (p.c + lanes - 1) / lanes : p.c);
  const float identity = kMax ? -std::numeric_limits<float>::infinity() : 0.0f;
  const int64_t row_floats = pool2d::row_floats(p);
  float* inverse = row + row_floats;
  for (int64_t i = 0; i < row_floats; ++i) row[i] = identity;
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
    float* out = y + job * p.out_w * pixel;
    const int rows = k.end - k.begin;
    const int count = p.count_include_pad ? k.padded : rows;
    const V scale_y = hn::Set(d, count > 0 ? 1.0f / count : 0.0f);
    if (rows <= 0) {
      for (int64_t i = 0; i < p.out_w * pixel; ++i) out[i] = identity;
      continue;
    }
    const int64_t iy = oy * p.stride_h - p.pad_top + k.begin * p.dilation_h;
    join_columns<kMax>(d, x + (job / p.out_h * p.h + iy) * p.w * pixel, p.dilation_h * p.w * pixel,
                       rows, row + p.pad_left * pixel, p.w * pixel);

    if (blocked) {
      for (int64_t ox = 0; ox < p.out_w; ++ox) {
        const float* at = row + ox * p.stride_w * pixel;
        V v = hn::Load(d, at);
        for (int s = 1; s < p.kernel_w; ++s) v = join<kMax>(d, v, hn::Load(d, at + s * step));
        if (!kMax) v = hn::Mul(v, hn::Mul(scale_y, hn::Set(d, inverse[ox])));
        hn::StoreU(v, d, out + ox * pixel);
      }
    } else if (p.stride_w <= 2) {
      for (int64_t ox = 0; ox < p.out_w; ox += lanes) {
        const int64_t n = HWY_MIN(lanes, p.out_w - ox);
        V v = hn::Set(d, identity);
        for (int s = 0; s < p.kernel_w; ++s) {
          const float* at = row + ox * p.stride_w + s * step;
          V tap, odd;
          if (p.stride_w == 2) {
            hn::LoadInterleaved2(d, at, tap, odd);
          } else {
            tap = hn::LoadU(d, at);
          }
          v = join<kMax>(d, v, tap);
        }
        if (!kMax) v = hn::Mul(v, hn::Mul(scale_y, load_n(d, inverse + ox, n)));
        store_n(v, d, out + ox, n);
      }
    } else {
      const float scale = hn::GetLane(scale_y);
      for (int64_t ox = 0; ox < p.out_w; ++ox) {
        float v = row[ox * p.stride_w];
        for (int s = 1; s < p.kernel_w; ++s) {
          const float tap = row[ox * p.stride_w + s * step];
          v = !kMax ? v + tap : tap != tap || v < tap ? tap : v;
        }
        out[ox] = kMax ? v : v * (scale * inverse[ox]);
      }
    }
  }
}

}  // namespace pool2d_separable

void pool2d_max(const Pool2dProblem& p, const float* x, float* y, float* row,
                const Worker& worker) {
  pool2d_separable::run<true>(p, x, y, row, worker);
}
void pool2d_average(const Pool2dProblem& p, const float* x, float* y, float* row,
                    const Worker& worker) {
  pool2d_separable::run<false>(p, x, y, row, worker);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::pool2d {
namespace {

Fit fits(const Pool2dProblem&) { return Fit::yes(0.3); }

size_t scratch_bytes(const Pool2dProblem& p) {
  return static_cast<size_t>(p.target.threads * thread_floats(p)) * sizeof(float);
}

void run(const Pool2dProblem& p, const Args& args, const Worker& worker) {
  const float* x = static_cast<const float*>(args.inputs[0]);
  float* y = static_cast<float*>(args.outputs[0]);
  float* row = reinterpret_cast<float*>(args.scratch) + worker.thread * thread_floats(p);
  if (p.kind == Pooling::kMax) {
    STRETTO_ISA_SELECT(p.target.isa, pool2d_max)(p, x, y, row, worker);
  } else {
    STRETTO_ISA_SELECT(p.target.isa, pool2d_average)(p, x, y, row, worker);
  }
}

}  // namespace

const Row kSeparable{.name = "separable", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::pool2d
#endif
