// Activations on Highway vectors, compiled once per target (see targets.h).
// Errors against the reference formulas over all finite floats: relu, clip, leaky and the hard ones
// are exact; the exponential ones stay below 4 ulp or 1e-7 absolute, whichever is larger.
#if defined(STRETTO_KERNELS_SIMD_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_SIMD_ACTIVATION_INL_H_
#undef STRETTO_KERNELS_SIMD_ACTIVATION_INL_H_
#else
#define STRETTO_KERNELS_SIMD_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include "stretto/kernels/epilogue.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^n e^r for x = n ln 2 + r, with n and r as exp needs them: a degree-6 minimax polynomial in
// |r| <= ln 2 / 2. `x` must lie in [-87.3, 88.3], where one factor 2^n is a normal number, or be
// NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_in_range(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504089f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0f)));
  const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

// min(max(x, lo), hi) that keeps NaN: on x86, Max and Min return their second operand when one is
// NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V clamp_or_nan(D d, V x, float lo, float hi) {
  const V clamped = hn::Min(hn::Set(d, hi), hn::Max(hn::Set(d, lo), x));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return clamped;
#else
  return hn::IfThenElse(hn::IsNaN(x), x, clamped);
#endif
}

// exp(x): 0 below -87.3, +inf above 88.7; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_exp(D d, V x) {
  // Two halves, because 2^n overflows in one factor just below the largest results.
  const V y =
      exp_in_range(d, hn::Mul(hn::Set(d, 0.5f), clamp_or_nan(d, x, -87.336544f, 88.722839f)));
  const V square = hn::Mul(y, y);
  const V low = hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.336544f)), hn::Zero(d), square);
  const V infinity = hn::BitCast(d, hn::Set(hn::RebindToSigned<D>(), 0x7f800000));
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722839f)), infinity, low);
}

// 1 / x to the last bit or two, for 1 <= x: the processor's estimate and Newton steps instead of a
// division, which would take as long as all the rest of a sigmoid.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_reciprocal(D d, V x) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const V one = hn::Set(d, 1.0f);
  V y = hn::ApproximateReciprocal(x);
#if HWY_TARGET == HWY_AVX2
  y = hn::MulAdd(hn::NegMulAdd(x, y, one), y,
                 y);  // the estimate has 12 bits there, 14 with AVX-512
#endif
  return hn::MulAdd(hn::NegMulAdd(x, y, one), y, y);
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// 1 / (1 + exp(-x)); 0 below -87, so that silu(-inf) is the NaN of the formula.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_sigmoid(D d, V x) {
  const V e = exp_in_range(d, clamp_or_nan(d, hn::Neg(x), -87.0f, 87.0f));
  const V y = fast_reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Zero(d), y);
}

// tanh(x) = 1 - 2 / (exp(2x) + 1), with a polynomial near 0 where that cancels.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = fast_exp(d, hn::Add(x, x));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  const V x2 = hn::Mul(x, x);
  V p = hn::Set(d, -5.70498872745e-3f);
  p = hn::MulAdd(p, x2, hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(p, x2, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(p, x2, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(p, x2, hn::Set(d, -3.33332819422e-1f));
  const V near = hn::MulAdd(hn::Mul(p, x2), x, x);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.625f)), near, far);
}

// erf(x) by Abramowitz and Stegun 7.1.26 refined near 0: |error| below 2e-7.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Abs(x);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), a, one));
  V p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  const V far = hn::NegMulAdd(hn::Mul(p, t), fast_exp(d, hn::Neg(hn::Mul(a, a))), one);
  // Taylor series below 0.5: the far form loses relative accuracy there.
  const V x2 = hn::Mul(x, x);
  V q = hn::Set(d, -8.548327023450852e-4f);
  q = hn::MulAdd(q, x2, hn::Set(d, 5.223977625442188e-3f));
  q = hn::MulAdd(q, x2, hn::Set(d, -2.686617064513125e-2f));
  q = hn::MulAdd(q, x2, hn::Set(d, 1.128379167095513e-1f));
  q = hn::MulAdd(q, x2, hn::Set(d, -3.761263890318375e-1f));
  q = hn::MulAdd(q, x2, hn::Set(d, 1.128379167095513f));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.5f)), hn::Mul(q, x), hn::CopySign(far, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_gelu(D d, V x) {
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half, fast_erf(d, hn::Mul(x, hn::Set(d, 0.70710678118f))), half);
}

// Run-time choice for epilogues: the switch is outside the arithmetic and perfectly predicted.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V activate(D d, Activation activation, V alpha, V beta, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return hn::IfThenElse(hn::Lt(x, zero), zero, x);
    case Activation::kClip:
      return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(hn::Max(x, alpha), beta));
    case Activation::kLeakyRelu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(x, alpha), x);
    case Activation::kSigmoid:
      return fast_sigmoid(d, x);
    case Activation::kSilu:
      return hn::Mul(x, fast_sigmoid(d, x));
    case Activation::kHardSigmoid: {
      const V y = hn::Min(hn::Max(hn::MulAdd(alpha, x, beta), zero), one);
      return hn::IfThenElse(hn::IsNaN(x), x, y);
    }
    case Activation::kHardSwish: {
      const V gate = hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
      const V y = hn::Mul(x, hn::Min(hn::Max(gate, zero), one));
      return hn::IfThenElse(hn::IsNaN(x), x, y);
    }
    case Activation::kTanh:
      return fast_tanh(d, x);
    case Activation::kGelu:
      return fast_gelu(d, x);
    case Activation::kGeluTanh: {
      const V inner = hn::Mul(hn::Set(d, 0.7978845608f),
                              hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), x), hn::Mul(x, x), x));
      const V half = hn::Mul(x, hn::Set(d, 0.5f));
      return hn::MulAdd(half, fast_tanh(d, inner), half);
    }
    case Activation::kElu: {
      // expm1 near 0: exp(x) - 1 cancels; the series is exact enough below 0.1.
      const V series = hn::Mul(
          x, hn::MulAdd(x,
                        hn::MulAdd(x, hn::MulAdd(x, hn::Set(d, 1.0f / 24), hn::Set(d, 1.0f / 6)),
                                   hn::Set(d, 0.5f)),
                        one));
      const V far = hn::Sub(fast_exp(d, x), one);
      const V m = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.1f)), series, far);
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, m), x);
    }
  }
  return x;
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
