// The passes of a core transform (plan.h) on vectors of independent transforms, and the last one
// of a row, which joins the lanes. Planes of real and imaginary parts; vector i of a plane is
// its numbers i lanes, ....
#if defined(STRETTO_KERNELS_FOURIER_PASSES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_FOURIER_PASSES_INL_H_
#undef STRETTO_KERNELS_FOURIER_PASSES_INL_H_
#else
#define STRETTO_KERNELS_FOURIER_PASSES_INL_H_
#endif

#include <hwy/highway.h>

#include "stretto/kernels/fourier/cpu/plan.h"
#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace fourier_passes {

template <typename T>
struct Planes {
  T *re, *im;
};

template <class D>
struct Complex {
  hn::Vec<D> re, im;
};

template <class D, class C = Complex<D>>
HWY_INLINE C add(C a, C b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D, class C = Complex<D>>
HWY_INLINE C subtract(C a, C b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D, class C = Complex<D>>
HWY_INLINE C multiply(C a, hn::Vec<D> re, hn::Vec<D> im) {
  return {hn::NegMulAdd(a.im, im, hn::Mul(a.re, re)), hn::MulAdd(a.im, re, hn::Mul(a.re, im))};
}

// Transforms of kRadix points, in place.
template <int kRadix>
struct Points;

template <>
struct Points<2> {
  template <class D>
  static HWY_INLINE void run(D, Complex<D>* a) {
    const Complex<D> sum = add<D>(a[0], a[1]);
    a[1] = subtract<D>(a[0], a[1]);
    a[0] = sum;
  }
};

template <>
struct Points<4> {
  template <class D>
  static HWY_INLINE void run(D, Complex<D>* a) {
    const Complex<D> s0 = add<D>(a[0], a[2]), d0 = subtract<D>(a[0], a[2]);
    const Complex<D> s1 = add<D>(a[1], a[3]), d1 = subtract<D>(a[1], a[3]);
    a[0] = add<D>(s0, s1);
    a[2] = subtract<D>(s0, s1);
    a[1] = {hn::Add(d0.re, d1.im), hn::Sub(d0.im, d1.re)};
    a[3] = {hn::Sub(d0.re, d1.im), hn::Add(d0.im, d1.re)};
  }
};

// Cosines and sines of 2 pi j / kRadix, j from 1 on.
template <int kRadix>
struct Waves;
template <>
struct Waves<3> {
  static constexpr double kCos[] = {-0.5};
  static constexpr double kSin[] = {0.86602540378443864676};
};
template <>
struct Waves<5> {
  static constexpr double kCos[] = {0.30901699437494742410, -0.80901699437494742410};
  static constexpr double kSin[] = {0.95105651629515357212, 0.58778525229247312917};
};
template <>
struct Waves<7> {
  static constexpr double kCos[] = {0.62348980185873353053, -0.22252093395631440429,
                                    -0.90096886790241912624};
  static constexpr double kSin[] = {0.78183148246802980871, 0.97492791218182360702,
                                    0.43388373911755812048};
};

// An odd number: sums and differences of points that lie symmetrically.
template <int kRadix>
struct Points {
  template <class D>
  static HWY_INLINE void run(D d, Complex<D>* a) {
    using T = hn::TFromD<D>;
    using W = Waves<kRadix>;
    constexpr int kPairs = (kRadix - 1) / 2;
    Complex<D> sum[kPairs], difference[kPairs];
    const Complex<D> first = a[0];
    for (int j = 0; j < kPairs; ++j) {
      sum[j] = add<D>(a[1 + j], a[kRadix - 1 - j]);
      difference[j] = subtract<D>(a[1 + j], a[kRadix - 1 - j]);
      a[0] = add<D>(a[0], sum[j]);
    }
    for (int k = 1; k <= kPairs; ++k) {
      Complex<D> even = first;
      Complex<D> odd{hn::Zero(d), hn::Zero(d)};
      for (int j = 0; j < kPairs; ++j) {
        const int at = k * (j + 1) % kRadix;
        const int place = (at <= kPairs ? at : kRadix - at) - 1;
        const auto c = hn::Set(d, static_cast<T>(W::kCos[place]));
        const auto s = hn::Set(d, static_cast<T>(at <= kPairs ? W::kSin[place] : -W::kSin[place]));
        even = {hn::MulAdd(c, sum[j].re, even.re), hn::MulAdd(c, sum[j].im, even.im)};
        odd = {hn::MulAdd(s, difference[j].re, odd.re), hn::MulAdd(s, difference[j].im, odd.im)};
      }
      a[k] = {hn::Add(even.re, odd.im), hn::Sub(even.im, odd.re)};
      a[kRadix - k] = {hn::Sub(even.re, odd.im), hn::Add(even.im, odd.re)};
    }
  }
};

// What a transform reads or writes: planes, or pairs of real and imaginary parts one behind the
// other, exchanged or not.
template <typename T>
struct Pairs {
  T* at;
  bool exchanged;
};

template <class D, typename T>
HWY_INLINE Complex<D> load_complex(D d, Planes<T> from, int64_t at) {
  return {hn::LoadU(d, from.re + at), hn::LoadU(d, from.im + at)};
}
template <class D, typename T>
HWY_INLINE Complex<D> load_complex(D d, Pairs<const T> from, int64_t at) {
  hn::Vec<D> re, im;
  hn::LoadInterleaved2(d, from.at + 2 * at, re, im);
  return from.exchanged ? Complex<D>{im, re} : Complex<D>{re, im};
}

// One pass: `done` transforms of kRadix * inner vectors each become kRadix times as many.
template <int kRadix, class D, class From, typename T = hn::TFromD<D>>
HWY_NOINLINE void pass(D d, int64_t done, int64_t inner, From from, Planes<T> to,
                       const T* twiddles) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < done; ++k) {
    const T* twiddle = twiddles;
    for (int64_t i = 0; i < inner; ++i) {
      Complex<D> a[kRadix];
      for (int64_t j = 0; j < kRadix; ++j) {
        a[j] = load_complex(d, from, ((k * kRadix + j) * inner + i) * lanes);
      }
      Points<kRadix>::run(d, a);
      for (int64_t u = 0; u < kRadix; ++u) {
        const int64_t at = ((u * done + k) * inner + i) * lanes;
        if (u > 0 && i > 0) {
          a[u] = multiply<D>(a[u], hn::Set(d, twiddle[0]), hn::Set(d, twiddle[1]));
          twiddle += 2;
        }
        hn::StoreU(a[u].re, d, to.re + at);
        hn::StoreU(a[u].im, d, to.im + at);
      }
    }
  }
}

// The same with any odd radix; its roots follow its twiddles.
template <class D, class From, typename T = hn::TFromD<D>>
HWY_NOINLINE void pass_of(D d, int64_t radix, int64_t done, int64_t inner, From from, Planes<T> to,
                          const T* twiddles) {
  constexpr int64_t kMost = 30;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* roots = twiddles + 2 * (inner - 1) * (radix - 1);
  const int64_t pairs = (radix - 1) / 2;
  for (int64_t k = 0; k < done; ++k) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto load = [&](int64_t j) -> Complex<D> {
        return load_complex(d, from, ((k * radix + j) * inner + i) * lanes);
      };
      const auto store = [&](int64_t u, Complex<D> value) {
        const int64_t at = ((u * done + k) * inner + i) * lanes;
        if (u > 0 && i > 0) {
          const T* twiddle = twiddles + 2 * ((i - 1) * (radix - 1) + u - 1);
          value = multiply<D>(value, hn::Set(d, twiddle[0]), hn::Set(d, twiddle[1]));
        }
        hn::StoreU(value.re, d, to.re + at);
        hn::StoreU(value.im, d, to.im + at);
      };
      Complex<D> sum[kMost], difference[kMost];
      const Complex<D> first = load(0);
      Complex<D> all = first;
      for (int64_t j = 0; j < pairs; ++j) {
        const Complex<D> x = load(1 + j), y = load(radix - 1 - j);
        sum[j] = add<D>(x, y);
        difference[j] = subtract<D>(x, y);
        all = add<D>(all, sum[j]);
      }
      store(0, all);
      for (int64_t u = 1; u <= pairs; ++u) {
        Complex<D> even = first;
        Complex<D> odd{hn::Zero(d), hn::Zero(d)};
        for (int64_t j = 0, at = 0; j < pairs; ++j) {
          at += at + u < radix ? u : u - radix;
          const auto c = hn::Set(d, roots[2 * at]), s = hn::Set(d, roots[2 * at + 1]);
          even = {hn::MulAdd(c, sum[j].re, even.re), hn::MulAdd(c, sum[j].im, even.im)};
          odd = {hn::MulAdd(s, difference[j].re, odd.re), hn::MulAdd(s, difference[j].im, odd.im)};
        }
        // Roots turn forwards: their sines are negative.
        store(u, {hn::Sub(even.re, odd.im), hn::Add(even.im, odd.re)});
        store(radix - u, {hn::Add(even.re, odd.im), hn::Sub(even.im, odd.re)});
      }
    }
  }
}

template <class D, class From, typename T = hn::TFromD<D>>
HWY_INLINE void any_pass(D d, int64_t radix, int64_t done, int64_t inner, From from, Planes<T> to,
                         const T* twiddles) {
  switch (radix) {
    case 2:
      return pass<2>(d, done, inner, from, to, twiddles);
    case 3:
      return pass<3>(d, done, inner, from, to, twiddles);
    case 4:
      return pass<4>(d, done, inner, from, to, twiddles);
    case 5:
      return pass<5>(d, done, inner, from, to, twiddles);
    case 7:
      return pass<7>(d, done, inner, from, to, twiddles);
    default:
      return pass_of(d, radix, done, inner, from, to, twiddles);
  }
}

// All passes of a core but the last one of a row, of what is in `a` or, where there is a pass at
// all, `pairs` of core.n numbers. Returns where the result is: in a or in b.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE Planes<T> all_passes(D d, const fourier::Core& core, const T* tables, Planes<T> a,
                                Planes<T> b, Pairs<const T> pairs = {}) {
  int64_t done = 1;
  for (int i = 0; i < core.radices; ++i) {
    const int64_t radix = core.radix[i], inner = core.count / (done * radix);
    if (i == 0 && pairs.at != nullptr) {
      any_pass(d, radix, done, inner, pairs, b, tables);
    } else {
      any_pass(d, radix, done, inner, a, b, tables);
    }
    tables += fourier::pass_numbers(static_cast<int>(radix), inner);
    done *= radix;
    const Planes<T> other = a;
    a = b;
    b = other;
  }
  return a;
}

// to[c][r] = from[r][c] of a square of lanes rows, one behind the other.
template <class D>
HWY_INLINE void transpose(D d, const float* from, float* to) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  transpose_square(d, from, kLanes, to, kLanes);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_pairs(D d, const double* p, int64_t stride) {
  if constexpr (hn::MaxLanes(d) == 2) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kPairs = hn::MaxLanes(half) / 2;
    return hn::Combine(d, load_pairs(half, p + kPairs * stride, stride),
                       load_pairs(half, p, stride));
  }
}

template <class D>
HWY_INLINE void transpose(D d, const double* from, double* to) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t c = 0; c < kLanes; c += 2) {
    const auto r0 = load_pairs(d, from + c, 2 * kLanes);
    const auto r1 = load_pairs(d, from + kLanes + c, 2 * kLanes);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to + c * kLanes);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + (c + 1) * kLanes);
  }
}

// Transforms of one point per lane: of the rows of a square, times the twiddles of numbers k on, of
// `count`; store(u, x) takes row u of the results.
template <class D, class Store, typename T = hn::TFromD<D>>
HWY_INLINE void join_square(D d, const T* re, const T* im, const T* twiddle_re, const T* twiddle_im,
                            int64_t count, const Store& store) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const auto load = [&](int64_t j) -> Complex<D> {
    const Complex<D> x{hn::Load(d, re + j * kLanes), hn::Load(d, im + j * kLanes)};
    if (j == 0) return x;
    return multiply<D>(x, hn::LoadU(d, twiddle_re + j * count),
                       hn::LoadU(d, twiddle_im + j * count));
  };
  if constexpr (kLanes == 2 || kLanes == 4) {
    Complex<D> a[kLanes];
    for (int j = 0; j < kLanes; ++j) a[j] = load(j);
    Points<kLanes>::run(d, a);
    for (int u = 0; u < kLanes; ++u) store(u, a[u]);
  } else {
    static_assert(kLanes == 8);
    Complex<D> a[4] = {load(0), load(2), load(4), load(6)};
    Complex<D> b[4] = {load(1), load(3), load(5), load(7)};
    Points<4>::run(d, a);
    Points<4>::run(d, b);
    const auto h = hn::Set(d, static_cast<T>(0.70710678118654752440));
    b[1] = {hn::Mul(h, hn::Add(b[1].re, b[1].im)), hn::Mul(h, hn::Sub(b[1].im, b[1].re))};
    b[2] = {b[2].im, hn::Neg(b[2].re)};
    b[3] = {hn::Mul(h, hn::Sub(b[3].im, b[3].re)), hn::Neg(hn::Mul(h, hn::Add(b[3].re, b[3].im)))};
    for (int u = 0; u < 4; ++u) {
      store(u, add<D>(a[u], b[u]));
      store(u + 4, subtract<D>(a[u], b[u]));
    }
  }
}

// The last pass of a row: core.count vectors become a row of core.n numbers, in order: in `to` or,
// where `pairs` is given, there, times `scale`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void join_lanes(D d, const fourier::Core& core, const T* twiddles, Planes<T> from,
                           Planes<T> to, Pairs<T> pairs, T scale) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  HWY_ALIGN T re[kLanes * kLanes];
  HWY_ALIGN T im[kLanes * kLanes];
  const T* twiddle_im = twiddles + fourier::padded(core.n);
  const int64_t step = core.count;
  for (int64_t i = 0; i < step; i += kLanes) {
    // The last square overlaps the one before it.
    const int64_t k = HWY_MAX(0, HWY_MIN(i, step - kLanes));
    transpose(d, from.re + k * kLanes, re);
    transpose(d, from.im + k * kLanes, im);
    const T *of_k = twiddles + k, *of_k_im = twiddle_im + k;
    if (pairs.at != nullptr) {
      const auto factor = hn::Set(d, scale);
      join_square(d, re, im, of_k, of_k_im, step, [&](int64_t u, Complex<D> x) HWY_ATTR {
        const auto y_re = hn::Mul(factor, pairs.exchanged ? x.im : x.re);
        const auto y_im = hn::Mul(factor, pairs.exchanged ? x.re : x.im);
        hn::StoreInterleaved2(y_re, y_im, d, pairs.at + 2 * (k + u * step));
      });
      continue;
    }
    if (step >= kLanes) {
      join_square(d, re, im, of_k, of_k_im, step, [&](int64_t u, Complex<D> x) HWY_ATTR {
        hn::StoreU(x.re, d, to.re + k + u * step);
        hn::StoreU(x.im, d, to.im + k + u * step);
      });
      continue;
    }
    HWY_ALIGN T row_re[kLanes * kLanes];
    HWY_ALIGN T row_im[kLanes * kLanes];
    join_square(d, re, im, of_k, of_k_im, step, [&](int64_t u, Complex<D> x) HWY_ATTR {
      hn::Store(x.re, d, row_re + u * kLanes);
      hn::Store(x.im, d, row_im + u * kLanes);
    });
    for (int64_t at = 0; at < core.n; ++at) {
      const int64_t place = at / step * kLanes + at % step;
      to.re[at] = row_re[place];
      to.im[at] = row_im[place];
    }
  }
}

// Whether a transform of a row can read and write pairs of numbers.
inline bool takes_pairs(const fourier::Core& core) { return core.count >= core.lanes; }

// A whole transform of a row, of what is in `a` or in `pairs`. Returns where the result is, if it
// is not in `result`: in a or in b.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE Planes<T> transform_row(D d, const fourier::Core& core, const T* tables,
                                   const T* twiddles, Planes<T> a, Planes<T> b,
                                   Pairs<const T> pairs = {}, Pairs<T> result = {}, T scale = 1) {
  const Planes<T> half_way = all_passes(d, core, tables, a, b, pairs);
  const Planes<T> other = half_way.re == a.re ? b : a;
  join_lanes(d, core, twiddles, half_way, other, result, scale);
  return other;
}

}  // namespace fourier_passes
}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
