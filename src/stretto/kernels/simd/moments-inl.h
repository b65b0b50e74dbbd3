// Mean and variance of a contiguous run of floats in two passes: the variance of numbers around a
// large mean would cancel in one. Compiled once per target (see targets.h).
#if defined(STRETTO_KERNELS_SIMD_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_SIMD_MOMENTS_INL_H_
#undef STRETTO_KERNELS_SIMD_MOMENTS_INL_H_
#else
#define STRETTO_KERNELS_SIMD_MOMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE float sum_of(D d, const float* x, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, x + i));
    b = hn::Add(b, hn::LoadU(d, x + i + lanes));
    c = hn::Add(c, hn::LoadU(d, x + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i < count; i += lanes) a = hn::Add(a, load_n(d, x + i, HWY_MIN(lanes, count - i)));
  return sum_lanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

// sum((x - center)^2)
template <class D>
HWY_INLINE float sum_of_squares(D d, const float* x, int64_t count, float center) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto middle = hn::Set(d, center);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  const auto add = [&](auto sum, int64_t at) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, x + at), middle);
    return hn::MulAdd(v, v, sum);
  };
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = add(a, i);
    b = add(b, i + lanes);
    c = add(c, i + 2 * lanes);
    e = add(e, i + 3 * lanes);
  }
  for (; i < count; i += lanes) {
    const auto v = hn::Sub(load_n(d, x + i, HWY_MIN(lanes, count - i), center), middle);
    a = hn::MulAdd(v, v, a);
  }
  return sum_lanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
