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

// b log2(2^exponent mantissa) of half a vector, in double precision: where it is large, powers need
// more digits of it than floats have. mantissa in [sqrt(1/2), sqrt(2)): log2(m) = 2 / ln(2)
// (s + s^3 / 3 + s^5 / 5 ...) with s = (m - 1) / (m + 1); what is left out is 5e-11 of it.
template <class DD, class V>
HWY_INLINE hn::Vec<DD> power_log2(DD dd, V mantissa, V exponent, V b) {
  const auto m = hn::PromoteTo(dd, mantissa), one = hn::Set(dd, 1.0);
  const auto s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), square = hn::Mul(s, s);
  constexpr double kTwoOverLn2 = 2.885390081777926814719849362003784;
  auto sum = hn::Set(dd, kTwoOverLn2 / 11);
  for (const int k : {9, 7, 5, 3, 1}) sum = hn::MulAdd(sum, square, hn::Set(dd, kTwoOverLn2 / k));
  const auto log2 = hn::MulAdd(sum, s, hn::PromoteTo(dd, exponent));
  const auto bound = hn::Set(dd, 160.0);  // beyond it all is 0 or infinity
  return hn::Max(hn::Min(hn::Mul(hn::PromoteTo(dd, b), log2), bound), hn::Neg(bound));
}

// 2^i y in two steps, so that neither factor overflows before the product does; |i| <= 160.
template <class D, class VI, class V = hn::Vec<D>>
HWY_INLINE V times_power_of_two(D d, V y, VI i) {
  const hn::RebindToSigned<D> di;
  const auto power = [&](VI n) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  };
  const VI half = hn::ShiftRight<1>(i);
  return hn::Mul(hn::Mul(y, power(half)), power(hn::Sub(i, half)));
}

// As std::pow, within 2 units in the last place; the C library computes vectors with numbers that
// are not finite.
template <class D, class V = hn::Vec<D>>
HWY_NOINLINE V pow_any(D d, V a, V b) {
  const hn::RebindToSigned<D> di;
  const hn::Half<D> dh;
  const hn::Rebind<double, hn::Half<D>> dd;
  if (!hn::AllTrue(d, hn::And(hn::IsFinite(a), hn::IsFinite(b)))) {
    return by_lanes(
        d, [](float x, float y) { return ::powf(x, y); }, a, b);
  }
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const auto is_zero = hn::Eq(a, zero);
  V size = hn::IfThenElse(is_zero, one, hn::Abs(a));
  const auto is_subnormal = hn::Lt(size, hn::Set(d, 0x1p-126f));
  size = hn::IfThenElse(is_subnormal, hn::Mul(size, hn::Set(d, 0x1p24f)), size);
  const auto bits = hn::BitCast(di, size);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));  // of sqrt(1/2)
  const V mantissa = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  const V exponent =
      hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(is_subnormal, hn::Set(d, 24.0f)));
  const auto low = power_log2(dd, hn::LowerHalf(dh, mantissa), hn::LowerHalf(dh, exponent),
                              hn::LowerHalf(dh, b));
  const auto high = power_log2(dd, hn::UpperHalf(dh, mantissa), hn::UpperHalf(dh, exponent),
                               hn::UpperHalf(dh, b));
  const auto low_whole = hn::Round(low), high_whole = hn::Round(high);
  const V whole = hn::Combine(d, hn::DemoteTo(dh, high_whole), hn::DemoteTo(dh, low_whole));
  const V rest = hn::Combine(d, hn::DemoteTo(dh, hn::Sub(high, high_whole)),
                             hn::DemoteTo(dh, hn::Sub(low, low_whole)));
  // 2^rest by Taylor's series of exp; |x| <= ln(2) / 2.
  const V x = hn::Mul(rest, hn::Set(d, 0.693147181f));
  V tail = hn::Set(d, 1.0f / 5040);
  for (const float divisor : {720.0f, 120.0f, 24.0f, 6.0f, 2.0f}) {
    tail = hn::MulAdd(tail, x, hn::Set(d, 1 / divisor));
  }
  const V fraction = hn::Add(hn::MulAdd(tail, hn::Mul(x, x), x), one);
  V y = times_power_of_two(d, fraction, hn::ConvertTo(di, whole));

  const V of_zero =
      hn::IfThenElse(hn::Lt(b, zero), hn::Set(d, std::numeric_limits<float>::infinity()), zero);
  y = hn::IfThenElse(hn::And(is_zero, hn::Ne(b, zero)), of_zero, y);
  const V half = hn::Mul(b, hn::Set(d, 0.5f));
  const auto is_whole = hn::Eq(hn::Floor(b), b);
  const auto is_odd = hn::And(is_whole, hn::Ne(hn::Floor(half), half));
  y = hn::IfThenElse(is_odd, hn::CopySign(y, a), y);
  const auto has_none = hn::AndNot(is_whole, hn::Lt(a, zero));
  return hn::IfThenElse(has_none, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
}

// Most models raise to the power of two only.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V pow_lanes(D d, V a, V b) {
  if (hn::AllTrue(d, hn::Eq(b, hn::Set(d, 2.0f)))) return hn::Mul(a, a);
  return pow_any(d, a, b);
}

// Exact, as fmod() is: the quotient is the right one or, next to a whole number, the one after it,
// and what a fused multiply-add leaves of a is a float then.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fmod_lanes(D d, V a, V b) {
#if HWY_NATIVE_FMA
  const V quotient = hn::Div(a, b);
  const V finite = hn::Set(d, std::numeric_limits<float>::max());
  if (hn::AllTrue(
          d, hn::And(hn::Lt(hn::Abs(quotient), hn::Set(d, 0x1p22f)), hn::Le(hn::Abs(b), finite)))) {
    const V rest = hn::NegMulAdd(hn::Trunc(quotient), b, a);
    const auto negative = hn::Lt(hn::CopySign(hn::Set(d, 1.0f), a), hn::Zero(d));
    const auto other_side = hn::Or(hn::And(negative, hn::Gt(rest, hn::Zero(d))),
                                   hn::AndNot(negative, hn::Lt(rest, hn::Zero(d))));
    const V right = hn::IfThenElse(other_side, hn::Add(rest, hn::CopySign(b, a)), rest);
    return hn::CopySign(right, a);
  }
#endif
  return by_lanes(
      d, [](float x, float y) { return ::fmodf(x, y); }, a, b);
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
