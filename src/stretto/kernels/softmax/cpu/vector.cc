// Maximum, exponentials with their sum, scaling: three passes over data that lies in the cache.
// Limit: about 6 cycles per vector for the exponential.
#include <cmath>
#include <limits>

#include "stretto/kernels/softmax/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/softmax/cpu/vector.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/activation-inl.h"
#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace softmax_vector {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A NaN may hide in the maximum or not; it reaches the sum, and through it every element.
template <class D>
HWY_INLINE void contiguous(D d, const float* x, float* y, int64_t count, bool log) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / lanes * lanes, rest = count - whole;
  auto top = hn::Set(d, kLowest), top2 = top;
  int64_t i = 0;
  for (; i + 2 * lanes <= whole; i += 2 * lanes) {
    top = hn::Max(top, hn::LoadU(d, x + i));
    top2 = hn::Max(top2, hn::LoadU(d, x + i + lanes));
  }
  if (i < whole) top = hn::Max(top, hn::LoadU(d, x + i));
  if (rest) top2 = hn::Max(top2, load_n(d, x + whole, rest, kLowest));
  const auto shift = hn::Set(d, max_lanes(d, hn::Max(top, top2)));
  auto sum = hn::Zero(d), sum2 = sum;
  for (i = 0; i + 2 * lanes <= whole; i += 2 * lanes) {
    const auto e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, x + i), shift));
    const auto e2 = exp_nonpositive(d, hn::Sub(hn::LoadU(d, x + i + lanes), shift));
    sum = hn::Add(sum, e);
    sum2 = hn::Add(sum2, e2);
    if (!log) {
      hn::StoreU(e, d, y + i);
      hn::StoreU(e2, d, y + i + lanes);
    }
  }
  for (; i < count; i += lanes) {
    const int64_t n = HWY_MIN(lanes, count - i);
    const auto e = exp_nonpositive(d, hn::Sub(load_n(d, x + i, n), shift));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), e));
    if (!log) store_n(e, d, y + i, n);
  }
  const float total = sum_lanes(d, hn::Add(sum, sum2));
  const auto factor = hn::Set(d, log ? 0.0f : 1.0f / total);
  const auto offset = hn::Set(d, log ? ::logf(total) : 0.0f);
  for (i = 0; i < count; i += lanes) {
    const int64_t n = HWY_MIN(lanes, count - i);
    const auto v = log ? hn::Sub(hn::Sub(load_n(d, x + i, n), shift), offset)
                       : hn::Mul(load_n(d, y + i, n), factor);
    store_n(v, d, y + i, n);
  }
}

// One vector of neighbouring slices; `n` of its lanes are real.
template <class D>
HWY_INLINE void strided(D d, const float* x, float* y, const SoftmaxProblem& p, int64_t n) {
  auto top = hn::Set(d, kLowest);
  for (int64_t i = 0; i < p.axis; ++i) top = hn::Max(top, load_n(d, x + i * p.inner, n));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < p.axis; ++i) {
    const auto e = exp_nonpositive(d, hn::Sub(load_n(d, x + i * p.inner, n), top));
    sum = hn::Add(sum, e);
    if (!p.log) store_n(e, d, y + i * p.inner, n);
  }
  if (p.log) {
    HWY_ALIGN float logs[hn::MaxLanes(d)];
    hn::Store(sum, d, logs);
    for (int64_t i = 0; i < n; ++i) logs[i] = ::logf(logs[i]);
    sum = hn::Load(d, logs);
  } else {
    sum = hn::Div(hn::Set(d, 1.0f), sum);
  }
  for (int64_t i = 0; i < p.axis; ++i) {
    const int64_t at = i * p.inner;
    store_n(p.log ? hn::Sub(hn::Sub(load_n(d, x + at, n), top), sum)
                  : hn::Mul(load_n(d, y + at, n), sum),
            d, y + at, n);
  }
}

}  // namespace softmax_vector

void softmax_run(const SoftmaxProblem& p, const float* x, float* y, const Worker& worker) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (p.axis == 0) return;
  if (p.inner == 1) {
    const Range rows = split(p.outer, worker);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      softmax_vector::contiguous(d, x + r * p.axis, y + r * p.axis, p.axis, p.log != 0);
    }
    return;
  }
  const int64_t groups = (p.inner + lanes - 1) / lanes;
  const Range work = split(p.outer * groups, worker);
  for (int64_t i = work.begin; i < work.end; ++i) {
    const int64_t column = i % groups * lanes, at = i / groups * p.axis * p.inner + column;
    softmax_vector::strided(d, x + at, y + at, p, HWY_MIN(lanes, p.inner - column));
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::softmax {
namespace {

Fit fits(const SoftmaxProblem&) { return Fit::yes(0.3); }

void run(const SoftmaxProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, softmax_run)
  (p, static_cast<const float*>(args.inputs[0]), static_cast<float*>(args.outputs[0]), worker);
}

}  // namespace

const Row kVector{.name = "vector", .fits = fits, .run = run};

}  // namespace stretto::kernels::softmax
#endif
