// Integers, in the order of the float kernel: runs where the innermost dimension is reduced,
// vectors of neighbouring outputs where it is kept. Limit: reading x once.
#include <algorithm>
#include <limits>

#include "stretto/kernels/reduce/candidates.h"
#include "stretto/kernels/reduce/cpu/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/reduce/cpu/integers.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace reduce_integers {
template <Reduction kKind, typename T>
constexpr T identity() {
  return kKind == Reduction::kMax   ? std::numeric_limits<T>::min()
         : kKind == Reduction::kMin ? std::numeric_limits<T>::max()
                                    : static_cast<T>(kKind == Reduction::kProd);
}

template <Reduction kKind, class V>
HWY_INLINE V join(V a, V b) {
  if constexpr (kKind == Reduction::kMax) {
    return hn::Max(a, b);
  } else if constexpr (kKind == Reduction::kMin) {
    return hn::Min(a, b);
  } else if constexpr (kKind == Reduction::kProd) {
    return hn::Mul(a, b);
  } else {
    return hn::Add(a, b);
  }
}

// Up to `most` values at x, the others of the vector as if they were not there.
template <Reduction kKind, class D, typename T>
HWY_INLINE hn::Vec<D> load(D d, const T* x, int64_t most) {
  if (most >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, x);
#if STRETTO_SAFE_MASKS
  const auto mask = hn::FirstN(d, static_cast<size_t>(most));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, x), hn::Set(d, identity<kKind, T>()));
#else
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  for (int64_t i = 0; i < static_cast<int64_t>(hn::MaxLanes(d)); ++i) {
    buffer[i] = i < most ? x[i] : identity<kKind, T>();
  }
  return hn::Load(d, buffer);
#endif
}

template <Reduction kKind, class D>
HWY_INLINE hn::TFromD<D> fold(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  const hn::CappedTag<T, 1> one;
  auto sum = hn::Set(one, identity<kKind, T>());
  for (size_t i = 0; i < hn::Lanes(d); ++i) sum = join<kKind>(sum, hn::Set(one, lanes[i]));
  return hn::GetLane(sum);
}

template <Reduction kKind, typename T>
void run(const ReduceProblem& p, const T* x, T* y, const Worker& worker) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const reduce::ReducePlan plan = reduce::make_plan(p);
  const auto start = hn::Set(d, identity<kKind, T>());
  if (plan.inner_reduced) {
    const Range range = split(plan.kept.total, worker);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const T* base = x + plan.kept.offset(i);
      auto a = start, b = start;
      for (int64_t r = 0; r < plan.folded.total; ++r) {
        const T* row = base + plan.folded.offset(r);
        int64_t j = 0;
        for (; j + 2 * lanes <= plan.inner; j += 2 * lanes) {
          a = join<kKind>(a, hn::LoadU(d, row + j));
          b = join<kKind>(b, hn::LoadU(d, row + j + lanes));
        }
        for (; j < plan.inner; j += lanes) {
          a = join<kKind>(a, load<kKind>(d, row + j, plan.inner - j));
        }
      }
      y[i] = fold<kKind>(d, join<kKind>(a, b));
    }
    return;
  }
  const int64_t groups = (plan.inner + lanes - 1) / lanes;
  const Range range = split(plan.kept.total * groups, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t column = i % groups * lanes, n = HWY_MIN(lanes, plan.inner - column);
    const T* base = x + plan.kept.offset(i / groups) + column;
    auto sum = start;
    for (int64_t r = 0; r < plan.folded.total; ++r) {
      sum = join<kKind>(sum, load<kKind>(d, base + plan.folded.offset(r), n));
    }
    HWY_ALIGN T sums[hn::MaxLanes(d)];
    hn::Store(sum, d, sums);
    std::copy_n(sums, n, y + i / groups * plan.inner + column);
  }
}

template <typename T>
void run_type(const ReduceProblem& p, const Args& args, const Worker& worker) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  switch (p.kind) {
    case Reduction::kMax:
      return run<Reduction::kMax>(p, x, y, worker);
    case Reduction::kMin:
      return run<Reduction::kMin>(p, x, y, worker);
    case Reduction::kProd:
      return run<Reduction::kProd>(p, x, y, worker);
    default:
      return run<Reduction::kSum>(p, x, y, worker);
  }
}

}  // namespace reduce_integers

void reduce_integers_run(const ReduceProblem& p, const Args& args, const Worker& worker) {
  if (p.dtype == DType::kInt32) return reduce_integers::run_type<int32_t>(p, args, worker);
  reduce_integers::run_type<int64_t>(p, args, worker);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::reduce {
namespace {

Fit fits_integers(const ReduceProblem& p) {
  return p.dtype == DType::kFloat32 ? Fit::no("only integers") : Fit::yes(0.5);
}

void run_integers(const ReduceProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, reduce_integers_run)(p, args, worker);
}

}  // namespace

const Row kIntegers{.name = "integers", .fits = fits_integers, .run = run_integers};

}  // namespace stretto::kernels::reduce
#endif
