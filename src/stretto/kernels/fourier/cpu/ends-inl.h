// Between rows of numbers and the planes of a core transform (plan.h): the first and the last step
// of a row. Inverse transforms are forward ones with real and imaginary parts exchanged, so theirs
// get planes the other way round.
#if defined(STRETTO_KERNELS_FOURIER_ENDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_FOURIER_ENDS_INL_H_
#undef STRETTO_KERNELS_FOURIER_ENDS_INL_H_
#else
#define STRETTO_KERNELS_FOURIER_ENDS_INL_H_
#endif

#include "stretto/kernels/fourier/cpu/passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace fourier_passes {

// n pairs to planes.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void pairs_to_planes(D d, const T* x, int64_t n, Planes<T> to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<D> re, im;
    hn::LoadInterleaved2(d, x + 2 * i, re, im);
    hn::StoreU(re, d, to.re + i);
    hn::StoreU(im, d, to.im + i);
  }
  for (; i < n; ++i) {
    to.re[i] = x[2 * i];
    to.im[i] = x[2 * i + 1];
  }
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void planes_to_pairs(D d, Planes<T> from, int64_t n, T scale, T* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreInterleaved2(hn::Mul(factor, hn::LoadU(d, from.re + i)),
                          hn::Mul(factor, hn::LoadU(d, from.im + i)), d, y + 2 * i);
  }
  for (; i < n; ++i) {
    y[2 * i] = scale * from.re[i];
    y[2 * i + 1] = scale * from.im[i];
  }
}

// Calls body(i, tag) for numbers first .. last - 1, vectors at a time and then one by one.
#define STRETTO_FOR_NUMBERS(body)                                     \
  {                                                                   \
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));            \
    int64_t i = first;                                                \
    for (; i + lanes <= last; i += lanes) body(i, d);                 \
    for (; i < last; ++i) body(i, hn::CappedTag<hn::TFromD<D>, 1>()); \
  }

// Numbers i, i + 1, ... of a plane, the last of them first.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> backwards(D d, const T* plane, int64_t i) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  return hn::Reverse(d, hn::LoadU(d, plane + i + 1 - lanes));
}

// The transform of h complex numbers made of pairs of real ones, to the first h + 1 frequencies of
// the real ones, as pairs. `mirror`: the others up to 2 h as well. Conjugates where `inverse`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void unfold_spectrum(D d, const T* waves, Planes<T> z, int64_t h, T scale, bool inverse,
                                bool mirror, T* y) {
  const T sign = inverse ? -scale : scale;
  y[0] = scale * (z.re[0] + z.im[0]);
  y[1] = 0;
  y[2 * h] = scale * (z.re[0] - z.im[0]);
  y[2 * h + 1] = 0;
  const T* waves_im = waves + fourier::padded(h);
  const int64_t first = 1, last = h;
  const auto body = [&](int64_t i, auto e) HWY_ATTR {
    const auto half = hn::Set(e, static_cast<T>(0.5));
    const auto re = hn::LoadU(e, z.re + i), im = hn::LoadU(e, z.im + i);
    const auto other_re = backwards(e, z.re, h - i), other_im = backwards(e, z.im, h - i);
    const auto w_re = hn::LoadU(e, waves + i), w_im = hn::LoadU(e, waves_im + i);
    // Half the sum and half the difference with the conjugate of the mirrored one.
    const auto even_re = hn::Mul(half, hn::Add(re, other_re));
    const auto even_im = hn::Mul(half, hn::Sub(im, other_im));
    const auto odd_re = hn::Mul(half, hn::Sub(re, other_re));
    const auto odd_im = hn::Mul(half, hn::Add(im, other_im));
    // even - i w odd
    const auto y_re = hn::MulAdd(w_re, odd_im, hn::MulAdd(w_im, odd_re, even_re));
    const auto y_im = hn::MulAdd(w_im, odd_im, hn::NegMulAdd(w_re, odd_re, even_im));
    hn::StoreInterleaved2(hn::Mul(hn::Set(e, scale), y_re), hn::Mul(hn::Set(e, sign), y_im), e,
                          y + 2 * i);
  };
  STRETTO_FOR_NUMBERS(body)
  for (int64_t i = h + 1; i < 2 * h && mirror; ++i) {
    y[2 * i] = y[2 * (2 * h - i)];
    y[2 * i + 1] = -y[2 * (2 * h - i) + 1];
  }
}

// Frequencies 0 .. h of 2 h real numbers, in planes, to h complex numbers whose inverse transform
// is pairs of them, 2 h times as large.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void fold_spectrum(D d, const T* waves, Planes<T> x, int64_t h, Planes<T> to) {
  x.im[0] = x.im[h] = 0;
  const T* waves_im = waves + fourier::padded(h);
  const int64_t first = 0, last = h;
  const auto body = [&](int64_t i, auto e) HWY_ATTR {
    const auto re = hn::LoadU(e, x.re + i), im = hn::LoadU(e, x.im + i);
    const auto other_re = backwards(e, x.re, h - i), other_im = backwards(e, x.im, h - i);
    const auto w_re = hn::LoadU(e, waves + i), w_im = hn::LoadU(e, waves_im + i);
    const auto even_re = hn::Add(re, other_re), even_im = hn::Sub(im, other_im);
    const auto odd_re = hn::Sub(re, other_re), odd_im = hn::Add(im, other_im);
    // even + i conj(w) odd
    hn::StoreU(hn::NegMulAdd(w_re, odd_im, hn::MulAdd(w_im, odd_re, even_re)), e, to.re + i);
    hn::StoreU(hn::MulAdd(w_im, odd_im, hn::MulAdd(w_re, odd_re, even_im)), e, to.im + i);
  };
  STRETTO_FOR_NUMBERS(body)
}

// Products of n numbers with a table, conjugated where `conjugate`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void multiply_planes(D d, Planes<T> x, const T* table, int64_t n, int64_t table_numbers,
                                bool conjugate, Planes<T> to) {
  const T* table_im = table + fourier::padded(table_numbers);
  const int64_t first = 0, last = n;
  const auto body = [&](int64_t i, auto e) HWY_ATTR {
    using E = decltype(e);
    const Complex<E> y = multiply<E>({hn::LoadU(e, x.re + i), hn::LoadU(e, x.im + i)},
                                     hn::LoadU(e, table + i), hn::LoadU(e, table_im + i));
    hn::StoreU(y.re, e, to.re + i);
    hn::StoreU(conjugate ? hn::Neg(y.im) : y.im, e, to.im + i);
  };
  STRETTO_FOR_NUMBERS(body)
}
#undef STRETTO_FOR_NUMBERS

}  // namespace fourier_passes
}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
