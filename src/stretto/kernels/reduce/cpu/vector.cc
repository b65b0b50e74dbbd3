// When the innermost dimension is reduced, each output folds contiguous runs; when it is kept,
// vectors of neighbouring outputs are folded together. Limit: reading x once.
#include <cmath>
#include <limits>

#include "stretto/kernels/reduce/candidates.h"
#include "stretto/kernels/reduce/cpu/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/reduce/cpu/vector.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace reduce_vector {

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <Reduction kKind>
constexpr float identity() {
  return kKind == Reduction::kMax    ? -kInfinity
         : kKind == Reduction::kMin  ? kInfinity
         : kKind == Reduction::kProd ? 1.0f
                                     : 0.0f;
}

// Two accumulators, or an accumulator and an input that was prepared.
template <Reduction kKind>
HWY_INLINE V merge(V a, V b) {
  const Tag d;
  switch (kKind) {
    case Reduction::kMax:
      return max_nan(d, a, b);
    case Reduction::kMin:
      return hn::Neg(max_nan(d, hn::Neg(a), hn::Neg(b)));
    case Reduction::kProd:
      return hn::Mul(a, b);
    default:
      return hn::Add(a, b);
  }
}

template <Reduction kKind>
HWY_INLINE V join(V sum, V v) {
  if constexpr (kKind == Reduction::kL2 || kKind == Reduction::kSumSquare) {
    return hn::MulAdd(v, v, sum);
  } else {
    return merge<kKind>(sum, kKind == Reduction::kL1 ? hn::Abs(v) : v);
  }
}

template <Reduction kKind>
HWY_INLINE V finish(V sum, int64_t count) {
  const Tag d;
  if constexpr (kKind == Reduction::kMean) {
    return hn::Div(sum, hn::Set(d, static_cast<float>(count)));
  } else if constexpr (kKind == Reduction::kL2) {
    return hn::Sqrt(sum);
  }
  return sum;
}

// All lanes of a vector in each, by halves: a chain over lanes would cost more than a short run.
template <Reduction kKind, class D>
HWY_INLINE V fold(D d, V v) {
  if constexpr (hn::MaxLanes(d) >= 2) v = merge<kKind>(v, hn::Reverse(d, v));
  if constexpr (hn::MaxLanes(d) >= 16) v = merge<kKind>(v, hn::Reverse8(d, v));
  if constexpr (hn::MaxLanes(d) >= 8) v = merge<kKind>(v, hn::Reverse4(d, v));
  if constexpr (hn::MaxLanes(d) >= 4) v = merge<kKind>(v, hn::Reverse2(d, v));
  return v;
}

// A vector of results of runs of 2 to 4 values, such as the parts of complex numbers.
constexpr int64_t kShortRun = 4;
template <Reduction kKind>
HWY_INLINE V fold_short(const float* x, int64_t run) {
  const Tag d;
  const V start = hn::Set(d, identity<kKind>());
  V a, b, c, e;
  if (run == 2) {
    hn::LoadInterleaved2(d, x, a, b);
    return join<kKind>(join<kKind>(start, a), b);
  }
  if (run == 3) {
    hn::LoadInterleaved3(d, x, a, b, c);
    return join<kKind>(join<kKind>(join<kKind>(start, a), b), c);
  }
  hn::LoadInterleaved4(d, x, a, b, c, e);
  return join<kKind>(join<kKind>(join<kKind>(join<kKind>(start, a), b), c), e);
}

template <Reduction kKind>
void run(const ReduceProblem& p, const float* x, float* y, const Worker& worker) {
  const Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const reduce::ReducePlan plan = reduce::make_plan(p);
  const V start = hn::Set(d, identity<kKind>());
  if (plan.inner_reduced) {
    const bool is_short = plan.folded.count == 0 && plan.inner > 1 && plan.inner <= kShortRun;
    const Range range = split(plan.kept.total, worker, is_short ? lanes : 1);
    int64_t i = range.begin;
    if (is_short) {
      for (; i + lanes <= range.end; i += lanes) {
        const V all = fold_short<kKind>(x + i * plan.inner, plan.inner);
        hn::StoreU(finish<kKind>(all, plan.inner), d, y + i);
      }
    }
    for (; i < range.end; ++i) {
      const float* base = x + plan.kept.offset(i);
      V a = start, b = start, c = start, e = start;
      for (int64_t r = 0; r < plan.folded.total; ++r) {
        const float* run = base + plan.folded.offset(r);
        int64_t j = 0;
        for (; j + 4 * lanes <= plan.inner; j += 4 * lanes) {
          a = join<kKind>(a, hn::LoadU(d, run + j));
          b = join<kKind>(b, hn::LoadU(d, run + j + lanes));
          c = join<kKind>(c, hn::LoadU(d, run + j + 2 * lanes));
          e = join<kKind>(e, hn::LoadU(d, run + j + 3 * lanes));
        }
        for (; j < plan.inner; j += lanes) {
          a = join<kKind>(a, load_n(d, run + j, HWY_MIN(lanes, plan.inner - j), identity<kKind>()));
        }
      }
      const V all = fold<kKind>(d, merge<kKind>(merge<kKind>(a, b), merge<kKind>(c, e)));
      y[i] = hn::GetLane(finish<kKind>(all, plan.folded.total * plan.inner));
    }
    return;
  }
  const int64_t width = 4 * lanes, groups = (plan.inner + width - 1) / width;
  const Range range = split(plan.kept.total * groups, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t column = i % groups * width, n = HWY_MIN(width, plan.inner - column);
    const float* base = x + plan.kept.offset(i / groups) + column;
    float* out = y + i / groups * plan.inner + column;
    V sums[4] = {start, start, start, start};
    if (n == width) {
      for (int64_t r = 0; r < plan.folded.total; ++r) {
        const float* from = base + plan.folded.offset(r);
        for (int k = 0; k < 4; ++k) sums[k] = join<kKind>(sums[k], hn::LoadU(d, from + k * lanes));
      }
    } else {
      for (int64_t r = 0; r < plan.folded.total; ++r) {
        const float* from = base + plan.folded.offset(r);
        for (int k = 0; k * lanes < n; ++k) {
          sums[k] = join<kKind>(sums[k], load_n(d, from + k * lanes, n - k * lanes));
        }
      }
    }
    for (int k = 0; k * lanes < n; ++k) {
      store_n(finish<kKind>(sums[k], plan.folded.total), d, out + k * lanes, n - k * lanes);
    }
  }
}

}  // namespace reduce_vector

void reduce_run(const ReduceProblem& p, const float* x, float* y, const Worker& worker) {
  using reduce_vector::run;
  switch (p.kind) {
    case Reduction::kSum:
      return run<Reduction::kSum>(p, x, y, worker);
    case Reduction::kMean:
      return run<Reduction::kMean>(p, x, y, worker);
    case Reduction::kMax:
      return run<Reduction::kMax>(p, x, y, worker);
    case Reduction::kMin:
      return run<Reduction::kMin>(p, x, y, worker);
    case Reduction::kProd:
      return run<Reduction::kProd>(p, x, y, worker);
    case Reduction::kL1:
      return run<Reduction::kL1>(p, x, y, worker);
    case Reduction::kL2:
      return run<Reduction::kL2>(p, x, y, worker);
    case Reduction::kSumSquare:
      return run<Reduction::kSumSquare>(p, x, y, worker);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::reduce {
namespace {

Fit fits(const ReduceProblem& p) {
  return p.dtype == DType::kFloat32 ? Fit::yes(0.5) : Fit::no("only float32");
}

void run(const ReduceProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, reduce_run)
  (p, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]), worker);
}

}  // namespace

const Row kVector{.name = "vector", .fits = fits, .run = run};

}  // namespace stretto::kernels::reduce
#endif
