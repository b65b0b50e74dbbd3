// The vector code behind the longer lines of vector.inc (see targets.h).
#if defined(STRETTO_KERNELS_ELEMENTWISE_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_ELEMENTWISE_OPS_INL_H_
#undef STRETTO_KERNELS_ELEMENTWISE_OPS_INL_H_
#else
#define STRETTO_KERNELS_ELEMENTWISE_OPS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "stretto/kernels/simd/activation-inl.h"
#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V min_nan(D, V a, V b) {
  return hn::IfThenElse(hn::IsNaN(b), b, hn::IfThenElse(hn::Gt(a, b), b, a));
}

// A function of the C library lane by lane: for what is rare or has no short vector form.
template <class D, class V = hn::Vec<D>>
HWY_NOINLINE V by_lanes(D d, float (*function)(float, float), V a, V b) {
  HWY_ALIGN float x[hn::MaxLanes(d)];
  HWY_ALIGN float y[hn::MaxLanes(d)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  for (size_t i = 0; i < hn::Lanes(d); ++i) x[i] = function(x[i], y[i]);
  return hn::Load(d, x);
}

// Most models raise to the power of two only.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V pow_lanes(D d, V a, V b) {
  if (hn::AllTrue(d, hn::Eq(b, hn::Set(d, 2.0f)))) return hn::Mul(a, a);
  return by_lanes(
      d, [](float x, float y) { return ::powf(x, y); }, a, b);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V full_log(D d, V a) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  V y = hn::Log(d, a);
  y = hn::IfThenElse(hn::Eq(a, hn::Zero(d)), hn::Set(d, -kInfinity), y);
  y = hn::IfThenElse(hn::Eq(a, hn::Set(d, kInfinity)), a, y);
  return hn::IfThenElse(hn::Ge(a, hn::Zero(d)), y, hn::Set(d, kNan));
}

// The vector forms reduce the range in single precision: good below about 100 periods.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V full_sin(D d, V a) {
  if (hn::AllTrue(d, hn::Lt(hn::Abs(a), hn::Set(d, 600.0f)))) return hn::Sin(d, a);
  return by_lanes(
      d, [](float x, float) { return ::sinf(x); }, a, a);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V full_cos(D d, V a) {
  if (hn::AllTrue(d, hn::Lt(hn::Abs(a), hn::Set(d, 600.0f)))) return hn::Cos(d, a);
  return by_lanes(
      d, [](float x, float) { return ::cosf(x); }, a, a);
}

// max(x, 0) + log(1 + exp(-|x|))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V softplus(D d, V a) {
  const V tail = hn::Log1p(d, exp_nonpositive(d, hn::Neg(hn::Abs(a))));
  return hn::IfThenElse(hn::IsNaN(a), a, hn::Add(hn::Max(a, hn::Zero(d)), tail));
}

// x tanh(softplus(x)) = x n / (n + 2) with n = e (e + 2), e = exp(x); x itself from 20 on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mish(D d, V a) {
  const V two = hn::Set(d, 2.0f), bound = hn::Set(d, 20.0f);
  const V e = fast_exp(d, hn::IfThenElse(hn::Lt(a, bound), a, bound));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(a, hn::Div(n, hn::Add(n, two)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sign(D d, V a) {
  const V zero = hn::Zero(d);
  const V negative = hn::IfThenElse(hn::Lt(a, zero), hn::Set(d, -1.0f), a);
  return hn::IfThenElse(hn::Gt(a, zero), hn::Set(d, 1.0f), negative);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
