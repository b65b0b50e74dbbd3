// Rows one after the other on vectors of their parts, or vectors of rows (plan.h). Limits: loads
// and stores of the passes in the first caches, memory for long rows.
#include <algorithm>

#include "stretto/kernels/fourier/candidates.h"
#include "stretto/kernels/fourier/cpu/plan.h"
#include "stretto/kernels/packing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/fourier/cpu/mixed_radix.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/fourier/cpu/ends-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace fourier_mixed_radix {

using fourier::Plan;
using fourier::Way;
using fourier_passes::Pairs;
using fourier_passes::Planes;

// What one thread works with.
template <typename T>
struct Work {
  const FourierProblem& p;
  const Plan& plan;
  const T *x, *window, *tables;
  T* y;
  Planes<T> a, b;    // of a core transform
  T *row_x, *row_y;  // rows that lie apart in x and in y, of windowed or of padded elements
  T scale;
};

template <typename T>
HWY_INLINE Planes<T> exchanged(Planes<T> a, bool exchange) {
  return exchange ? Planes<T>{a.im, a.re} : a;
}

// The elements of a row that count, one behind the other.
template <typename T>
const T* row_of(const Work<T>& w, int64_t row) {
  const FourierProblem& p = w.p;
  const T* x = w.x + row_in_x(p, row);
  const int64_t counted = p.counted(), given = HWY_MIN(counted, p.size);
  if (p.inner == 1 && given == counted && w.window == nullptr) return x;
  T* to = w.row_x;
  const int64_t step = p.inner * p.parts;
  if (p.parts == 1) {
    for (int64_t j = 0; j < given; ++j) to[j] = x[j * step];
    for (int64_t j = 0; j < given && w.window != nullptr; ++j) to[j] *= w.window[j];
  } else {
    for (int64_t j = 0; j < given; ++j) {
      to[2 * j] = x[j * step];
      to[2 * j + 1] = x[j * step + 1];
    }
    for (int64_t j = 0; j < given && w.window != nullptr; ++j) {
      to[2 * j] *= w.window[j];
      to[2 * j + 1] *= w.window[j];
    }
  }
  for (int64_t j = given * p.parts; j < counted * p.parts; ++j) to[j] = 0;
  return to;
}

// A row of x to the numbers that are transformed, in `to`; `other` is free.
template <class D, typename T>
void load_row(D d, const Work<T>& w, const T* x, Planes<T> to, Planes<T> other) {
  const FourierProblem& p = w.p;
  const bool spectrum = p.kept_parts == 1;
  if (!spectrum && (w.plan.half || p.parts == 2)) {
    fourier_passes::pairs_to_planes(d, x, w.plan.n, to);
  } else if (!spectrum) {
    for (int64_t j = 0; j < p.length; ++j) to.re[j] = x[j];
    for (int64_t j = 0; j < p.length; ++j) to.im[j] = 0;
  } else if (w.plan.half) {
    fourier_passes::pairs_to_planes(d, x, w.plan.n + 1, other);
    fourier_passes::fold_spectrum(d, w.tables + w.plan.unfold, other, w.plan.n, to);
  } else {
    for (int64_t j = 0; 2 * j <= p.length; ++j) {
      to.re[j] = x[j * p.parts];
      to.im[j] = p.parts == 2 && j > 0 && 2 * j < p.length ? x[2 * j + 1] : 0;
      if (j == 0 || 2 * j == p.length) continue;
      to.re[p.length - j] = to.re[j];
      to.im[p.length - j] = -to.im[j];
    }
  }
}

// The transformed numbers to a row of y.
template <class D, typename T>
void store_row(D d, const Work<T>& w, Planes<T> from, int64_t row) {
  const FourierProblem& p = w.p;
  const bool apart = p.inner > 1;
  T* y = apart ? w.row_y : w.y + row_in_y(p, row);
  if (w.plan.half && p.kept_parts == 2) {
    fourier_passes::unfold_spectrum(d, w.tables + w.plan.unfold, from, w.plan.n, w.scale,
                                    p.inverse != 0, p.kept > w.plan.n + 1, y);
  } else if (w.plan.half) {
    fourier_passes::planes_to_pairs(d, from, w.plan.n, w.scale, y);
  } else if (p.kept_parts == 2) {
    fourier_passes::planes_to_pairs(d, from, p.kept, w.scale, y);
  } else {
    for (int64_t k = 0; k < p.kept; ++k) y[k] = w.scale * from.re[k];
  }
  if (!apart) return;
  T* to = w.y + row_in_y(p, row);
  for (int64_t k = 0; k < p.kept; ++k) {
    for (int64_t part = 0; part < p.kept_parts; ++part) {
      to[k * p.inner * p.kept_parts + part] = y[k * p.kept_parts + part];
    }
  }
}

// Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2, so that the sum is a convolution with a chirp.
template <class D, typename T>
Planes<T> convolve(D d, const Work<T>& w) {
  const Plan& plan = w.plan;
  const T *join = w.tables + plan.join, *chirp = w.tables + plan.chirp;
  fourier_passes::multiply_planes(d, w.a, chirp, plan.n, plan.n, false, w.a);
  for (int64_t j = plan.n; j < plan.core.n; ++j) w.a.re[j] = w.a.im[j] = 0;
  Planes<T> at = fourier_passes::transform_row(d, plan.core, w.tables, join, w.a, w.b);
  fourier_passes::multiply_planes(d, at, w.tables + plan.response, plan.core.n, plan.core.n, true,
                                  at);
  at = fourier_passes::transform_row(d, plan.core, w.tables, join, at, at.re == w.a.re ? w.b : w.a);
  // The inverse transform is the conjugate of this one.
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < plan.n; j += lanes) {
    hn::StoreU(hn::Neg(hn::LoadU(d, at.im + j)), d, at.im + j);
  }
  fourier_passes::multiply_planes(d, at, chirp, plan.n, plan.n, false, at);
  return at;
}

template <class D, typename T>
void transform_rows(D d, const Work<T>& w, const Worker& worker) {
  const Range rows = split(w.p.rows(), worker);
  // A half transform of real numbers is a forward one in any case: the spectrum is conjugated.
  const bool exchange = w.p.inverse && !(w.plan.half && w.p.kept_parts == 2);
  const bool direct = w.plan.way == Way::kRow && fourier_passes::takes_pairs(w.plan.core);
  const bool from_pairs = direct && w.p.kept_parts == 2 && (w.plan.half || w.p.parts == 2);
  const bool to_pairs = direct && w.p.inner == 1 && w.p.kept == w.p.length &&
                        (w.plan.half ? w.p.kept_parts == 1 : w.p.kept_parts == 2);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = row_of(w, row);
    if (!from_pairs) load_row(d, w, x, exchanged(w.a, exchange), exchanged(w.b, exchange));
    if (w.plan.way == Way::kConvolution) {
      store_row(d, w, exchanged(convolve(d, w), exchange), row);
      continue;
    }
    const Planes<T> result = fourier_passes::transform_row(
        d, w.plan.core, w.tables, w.tables + w.plan.join, w.a, w.b,
        from_pairs ? Pairs<const T>{x, exchange} : Pairs<const T>{},
        to_pairs ? Pairs<T>{w.y + row_in_y(w.p, row), exchange} : Pairs<T>{}, w.scale);
    if (!to_pairs) store_row(d, w, exchanged(result, exchange), row);
  }
}

// `count` rows from `row` on, one per lane.
template <class D, typename T>
void transform_columns(D d, const Work<T>& w, int64_t row, int64_t count) {
  const FourierProblem& p = w.p;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const T* x[kLanes];
  T* y[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    x[i] = w.x + row_in_x(p, row + HWY_MIN(i, count - 1));
    y[i] = w.y + row_in_y(p, row + HWY_MIN(i, count - 1));
  }
  const bool neighbours = count == kLanes && p.inner > 1 && row % p.inner + kLanes <= p.inner;
  const Planes<T> to = exchanged(w.a, p.inverse != 0);
  const int64_t given = HWY_MIN(p.counted(), p.size), step = p.inner * p.parts;
  HWY_ALIGN T lane_re[kLanes];
  HWY_ALIGN T lane_im[kLanes];
  for (int64_t j = 0; j < p.length; ++j) {
    auto re = hn::Zero(d), im = hn::Zero(d);
    if (j < given) {
      if (neighbours && p.parts == 2) {
        hn::LoadInterleaved2(d, x[0] + j * step, re, im);
      } else if (neighbours) {
        re = hn::LoadU(d, x[0] + j * step);
      } else {
        for (int64_t i = 0; i < kLanes; ++i) {
          lane_re[i] = x[i][j * step];
          lane_im[i] = p.parts == 2 ? x[i][j * step + 1] : 0;
        }
        re = hn::Load(d, lane_re);
        im = hn::Load(d, lane_im);
      }
      if (w.window != nullptr) {
        const auto factor = hn::Set(d, w.window[j]);
        re = hn::Mul(re, factor);
        im = hn::Mul(im, factor);
      }
    }
    if (p.kept_parts == 1) {
      if (2 * j > p.length) break;
      if (j == 0 || 2 * j == p.length) im = hn::Zero(d);
      if (j > 0) {
        hn::StoreU(re, d, to.re + (p.length - j) * kLanes);
        hn::StoreU(hn::Neg(im), d, to.im + (p.length - j) * kLanes);
      }
    }
    hn::StoreU(re, d, to.re + j * kLanes);
    hn::StoreU(im, d, to.im + j * kLanes);
  }
  const Planes<T> from =
      exchanged(fourier_passes::all_passes(d, w.plan.core, w.tables, w.a, w.b), p.inverse != 0);
  const auto scale = hn::Set(d, w.scale);
  const int64_t step_y = p.inner * p.kept_parts;
  for (int64_t k = 0; k < p.kept; ++k) {
    const auto re = hn::Mul(scale, hn::LoadU(d, from.re + k * kLanes));
    const auto im = hn::Mul(scale, hn::LoadU(d, from.im + k * kLanes));
    if (neighbours && p.kept_parts == 2) {
      hn::StoreInterleaved2(re, im, d, y[0] + k * step_y);
    } else if (neighbours) {
      hn::StoreU(re, d, y[0] + k * step_y);
    } else {
      hn::Store(re, d, lane_re);
      hn::Store(im, d, lane_im);
      for (int64_t i = 0; i < count; ++i) {
        y[i][k * step_y] = lane_re[i];
        if (p.kept_parts == 2) y[i][k * step_y + 1] = lane_im[i];
      }
    }
  }
}

template <class D, typename T>
void all_columns(D d, const Work<T>& w, const Worker& worker) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Groups do not reach over the end of neighbouring rows, where there are many.
  const int64_t whole = w.p.inner >= lanes ? w.p.inner : w.p.rows();
  const int64_t groups = (whole + lanes - 1) / lanes;
  const Range work = split(w.p.rows() / whole * groups, worker);
  for (int64_t i = work.begin; i < work.end; ++i) {
    const int64_t first = i % groups * lanes;
    transform_columns(d, w, i / groups * whole + first, HWY_MIN(lanes, whole - first));
  }
}

template <int kLanes, typename T>
void with_lanes(const Work<T>& w, const Worker& worker) {
  if constexpr (hn::MaxLanes(hn::ScalableTag<T>()) >= kLanes) {
    const hn::CappedTag<T, kLanes> d;
    w.plan.way == Way::kColumns ? all_columns(d, w, worker) : transform_rows(d, w, worker);
  }
}

template <typename T>
void run(const FourierProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = fourier::plan_of(p);
  T* mine = reinterpret_cast<T*>(args.scratch) + worker.thread * plan.scratch_numbers;
  const auto next = [&](int64_t numbers) {
    T* at = mine;
    mine += numbers;
    return at;
  };
  const Planes<T> a{next(plan.plane), next(plan.plane)}, b{next(plan.plane), next(plan.plane)};
  Work<T> w{.p = p,
            .plan = plan,
            .x = static_cast<const T*>(args.inputs[0]),
            .window = p.window ? static_cast<const T*>(args.inputs[1]) : nullptr,
            .tables = reinterpret_cast<const T*>(args.packed),
            .y = static_cast<T*>(args.outputs[0]),
            .a = a,
            .b = b,
            .row_x = mine,
            .row_y = mine + fourier::padded(2 * p.length + 2),
            .scale = p.inverse ? static_cast<T>(1.0 / static_cast<double>(p.length)) : T{1}};
  switch (plan.core.lanes) {
    case 2:
      if constexpr (sizeof(T) == 8) with_lanes<2>(w, worker);
      return;
    case 4:
      return with_lanes<4>(w, worker);
    default:
      return with_lanes<8>(w, worker);
  }
}

}  // namespace fourier_mixed_radix

void fourier_run(const FourierProblem& p, const Args& args, const Worker& worker) {
  p.dtype == DType::kFloat64 ? fourier_mixed_radix::run<double>(p, args, worker)
                             : fourier_mixed_radix::run<float>(p, args, worker);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::fourier {
namespace {

Fit fits(const FourierProblem& p) {
  return p.rows() == 0 || p.size == 0 ? Fit::no("empty input") : Fit::yes(0.2);
}

std::string packing(const FourierProblem& p) {
  return packing_text("fourier_tables", 1, p.target.lanes());
}

size_t packed_bytes(const FourierProblem& p) {
  return static_cast<size_t>(plan_of(p).table_numbers) * dtype_bytes(p.dtype);
}

void pack(const FourierProblem& p, std::span<const Tensor>, std::byte* packed) {
  const Plan plan = plan_of(p);
  p.dtype == DType::kFloat64 ? write_tables(p, plan, reinterpret_cast<double*>(packed))
                             : write_tables(p, plan, reinterpret_cast<float*>(packed));
}

size_t scratch_bytes(const FourierProblem& p) {
  return static_cast<size_t>(plan_of(p).scratch_numbers) * dtype_bytes(p.dtype) *
         static_cast<size_t>(p.target.threads);
}

void run(const FourierProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, fourier_run)(p, args, worker);
}

}  // namespace

const Row kMixedRadix{.name = "mixed_radix",
                      .fits = fits,
                      .packed_bytes = packed_bytes,
                      .pack = pack,
                      .packing = packing,
                      .scratch_bytes = scratch_bytes,
                      .run = run};

}  // namespace stretto::kernels::fourier
#endif
