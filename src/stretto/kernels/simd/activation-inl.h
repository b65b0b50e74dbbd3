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
#include "stretto/kernels/simd/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1.5 * 2^23. A float of this size has no fraction, so adding it to x rounds x to a whole number n,
// and the low bits of the sum hold n: neither a rounding nor a conversion is needed.
constexpr float kRoundingTerm = 12582912.0f;
constexpr float kLog2E = 1.44269504089f;
constexpr float kLn2 = 0.693147180559945f;  // as a float 2e-9 too large

// 2^(n + b) from a sum t = n + kRoundingTerm + 127 + b; 0 where n + b = -127, inf where it is 128.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power_of_two(D d, V t) {
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), t)));
}

// exp(x) = 2^n e^r with |r| <= ln 2 / 2. 2 e^r is a minimax polynomial of degree 6 (relative error
// 3e-9), in Estrin's form, which is shorter than it is in Horner's; the other factor is 2^(n - 1),
// because 2^128 would be infinite. Where n = -126 that is 0.
template <bool kNonPositive, class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x) {
  x = at_least(hn::Set(d, -87.3f), x);
  if constexpr (!kNonPositive) x = at_most(hn::Set(d, 89.0f), x);
  const V term = hn::Set(d, kRoundingTerm + 126);
  const V t = hn::MulAdd(x, hn::Set(d, kLog2E), term);
  const V n = hn::Sub(t, term);
  V r;
  if constexpr (kNonPositive) {
    r = hn::NegMulAdd(n, hn::Set(d, kLn2), x);
  } else {
    r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  }
  const V r2 = hn::Mul(r, r), two = hn::Set(d, 2.0f);
  const V low = hn::MulAdd(hn::Set(d, 2 * 0.166665211f), r, hn::Set(d, 2 * 0.49999994f));
  V high = hn::MulAdd(hn::Set(d, 2 * 0.00836867746f), r, hn::Set(d, 2 * 0.041668281f));
  high = hn::MulAdd(hn::Set(d, 2 * 0.00138190563f), r2, high);
  const V p = hn::MulAdd(hn::MulAdd(high, r2, low), r2, hn::MulAdd(r, two, two));
  return hn::Mul(p, power_of_two(d, t));
}

// exp(x): 0 below -87, +inf above 88.7; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_exp(D d, V x) {
  return exp_of<false>(d, x);
}

// exp(x) for x <= 0, as fast_exp there but for a relative error that grows to 3e-7 at -87; any
// value for x > 0; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_nonpositive(D d, V x) {
  return exp_of<true>(d, x);
}

// y sigmoid(x) = y / (1 + exp(-x)). Below -88.4 (AVX-512: -87) sigmoid(x) is 0, so that silu(-inf)
// is the NaN of the formula. A polynomial of degree 5 (relative error 1.1e-7) is enough: at most a
// quarter of its error reaches sigmoid(x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V times_sigmoid(D d, V x, V y) {
#if HWY_TARGET == HWY_AVX3
  constexpr float kLeast = -87.0f;  // Newton's step below needs a normal inverse
#else
  constexpr float kLeast = -89.0f;  // exp(-x) = inf
#endif
  const V one = hn::Set(d, 1.0f), term = hn::Set(d, kRoundingTerm + 127);
  const V bounded = at_most(hn::Set(d, 87.3f), at_least(hn::Set(d, kLeast), x));
  const V t = hn::NegMulAdd(bounded, hn::Set(d, kLog2E), term);
  const V r = hn::NegMulAdd(hn::Sub(term, t), hn::Set(d, kLn2), bounded);  // -r of exp(-x)
  const V r2 = hn::Mul(r, r);
  const V low = hn::MulAdd(hn::Set(d, -0.166671157f), r, hn::Set(d, 0.499992311f));
  const V high = hn::MulAdd(hn::Set(d, -0.00831246749f), r, hn::Set(d, 0.0418902561f));
  const V p = hn::MulAdd(hn::MulAdd(high, r2, low), r2, hn::Sub(one, r));
  const V divisor = hn::MulAdd(p, power_of_two(d, t), one);
#if HWY_TARGET == HWY_AVX3
  // A division of 16 lanes takes longer than all the rest. The estimate has 14 bits.
  const V estimate = hn::ApproximateReciprocal(divisor);
  const V inverse = hn::MulAdd(hn::NegMulAdd(divisor, estimate, one), estimate, estimate);
  return hn::Mul(y, hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLeast)), inverse));
#else
  return hn::Div(y, divisor);
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_sigmoid(D d, V x) {
  return times_sigmoid(d, x, hn::Set(d, 1.0f));
}

// exp(x) - 1 for -87 <= x <= 40, -1 below and at least 2e17 above: 2^n (e^r - 1) + (2^n - 1),
// where nothing cancels, so that the error is relative. The polynomial is that of exp_of.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_expm1(D d, V x) {
  x = at_most(hn::Set(d, 40.0f), at_least(hn::Set(d, -87.0f), x));
  const V term = hn::Set(d, kRoundingTerm + 127);
  const V t = hn::MulAdd(x, hn::Set(d, kLog2E), term);
  const V r = hn::NegMulAdd(hn::Sub(t, term), hn::Set(d, kLn2), x);
  const V r2 = hn::Mul(r, r);
  const V low = hn::MulAdd(hn::Set(d, 0.166665211f), r, hn::Set(d, 0.49999994f));
  V high = hn::MulAdd(hn::Set(d, 0.00836867746f), r, hn::Set(d, 0.041668281f));
  high = hn::MulAdd(hn::Set(d, 0.00138190563f), r2, high);
  const V p = hn::MulAdd(hn::MulAdd(high, r2, low), r2, r);
  const V power = power_of_two(d, t);
  return hn::MulAdd(p, power, hn::Sub(power, hn::Set(d, 1.0f)));
}

// tanh(x) = m / (m + 2) with m = exp(2x) - 1; never beyond -1 and 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_tanh(D d, V x) {
  const V m = fast_expm1(d, hn::Add(x, x));
  return hn::Div(m, hn::Add(m, hn::Set(d, 2.0f)));
}

// The share of a normal distribution above a >= 0, that is erfc(a / sqrt 2) / 2; `e` is
// exp(-a^2 / 2). The form is that of Abramowitz and Stegun 7.1.26 with one term more: the error of
// a times the share is below 2e-8.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V normal_tail(D d, V a, V e) {
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.39f), a, one));
  const V t2 = hn::Mul(t, t);
  const V p1 = hn::MulAdd(hn::Set(d, 0.19410257f), t, hn::Set(d, 0.151473954f));
  const V p3 = hn::MulAdd(hn::Set(d, 0.373888612f), t, hn::Set(d, -0.0157021899f));
  const V p5 = hn::MulAdd(hn::Set(d, 0.0536175556f), t, hn::Set(d, -0.257380515f));
  return hn::Mul(hn::MulAdd(hn::MulAdd(p5, t2, p3), t2, p1), hn::Mul(t, e));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_erf(D d, V x) {
  const V a = hn::Abs(x), x2 = hn::Mul(x, x);
  const V tail =
      normal_tail(d, hn::Mul(a, hn::Set(d, 1.41421356237f)), exp_nonpositive(d, hn::Neg(x2)));
  const V far = hn::NegMulAdd(hn::Set(d, 2.0f), tail, hn::Set(d, 1.0f));
  // Taylor series below 0.5: the far form loses relative accuracy there.
  V q = hn::Set(d, -8.548327023450852e-4f);
  q = hn::MulAdd(q, x2, hn::Set(d, 5.223977625442188e-3f));
  q = hn::MulAdd(q, x2, hn::Set(d, -2.686617064513125e-2f));
  q = hn::MulAdd(q, x2, hn::Set(d, 1.128379167095513e-1f));
  q = hn::MulAdd(q, x2, hn::Set(d, -3.761263890318375e-1f));
  q = hn::MulAdd(q, x2, hn::Set(d, 1.128379167095513f));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.5f)), hn::Mul(q, x), hn::CopySign(far, x));
}

// x times the share of a normal distribution below x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fast_gelu(D d, V x) {
  const V e = exp_nonpositive(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  const V tail = normal_tail(d, hn::Abs(x), e);
  const V above = hn::Mul(x, hn::Sub(hn::Set(d, 1.0f), tail));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), above, hn::Mul(x, tail));
}

// Run-time choice for epilogues: the switch is outside the arithmetic and perfectly predicted.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V activate(D d, Activation activation, V alpha, V beta, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return at_least(zero, x);
    case Activation::kClip:
      return at_most(beta, at_least(alpha, x));
    case Activation::kLeakyRelu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(x, alpha), x);
    case Activation::kSigmoid:
      return fast_sigmoid(d, x);
    case Activation::kSilu:
      return times_sigmoid(d, x, x);
    case Activation::kHardSigmoid:
      return at_most(one, at_least(zero, hn::MulAdd(alpha, x, beta)));
    case Activation::kHardSwish: {
      const V gate = hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
      return hn::Mul(x, at_most(one, at_least(zero, gate)));
    }
    case Activation::kTanh:
      return fast_tanh(d, x);
    case Activation::kGelu:
      return fast_gelu(d, x);
    case Activation::kGeluTanh: {
      // x / 2 (1 + tanh(u)) = x sigmoid(2 u)
      const V twice = hn::Mul(hn::Set(d, 1.5957691216f),
                              hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), x), hn::Mul(x, x), x));
      return times_sigmoid(d, twice, x);
    }
    case Activation::kElu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, fast_expm1(d, x)), x);
  }
  return x;
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
