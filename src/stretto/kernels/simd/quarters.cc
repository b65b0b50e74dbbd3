#include "stretto/kernels/simd/quarters.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/simd/quarters.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/clamp-inl.h"
#include "stretto/kernels/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

template <int kTerms, bool kResidual>
void add_terms(const float* const* terms, const float* bias, const float* residual, V lo, V hi,
               float* c, int64_t rows) {
  const D d;
  const V start = hn::LoadU(d, bias);
  for (int64_t i = 0; i < rows * kLanes; i += kLanes) {
    V sum = hn::Add(start, hn::LoadU(d, terms[0] + i));
    if constexpr (kTerms > 1) sum = hn::Add(sum, hn::LoadU(d, terms[1] + i));
    if constexpr (kTerms > 2) sum = hn::Add(sum, hn::LoadU(d, terms[2] + i));
    if constexpr (kResidual) sum = hn::Add(sum, hn::LoadU(d, residual + i));
    hn::StoreU(at_most(hi, at_least(lo, sum)), d, c + i);
  }
}

template <bool kResidual>
void add_some(const float* const* terms, int count, const float* bias, const float* residual, V lo,
              V hi, float* c, int64_t rows) {
  if (count == 1) return add_terms<1, kResidual>(terms, bias, residual, lo, hi, c, rows);
  if (count == 2) return add_terms<2, kResidual>(terms, bias, residual, lo, hi, c, rows);
  add_terms<3, kResidual>(terms, bias, residual, lo, hi, c, rows);
}

}  // namespace

void add_runs(const float* a, const float* b, float* to, int64_t count) {
  const D d;
  for (int64_t i = 0; i < count; i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
  }
}

void subtract_runs(const float* a, const float* b, float* to, int64_t count) {
  const D d;
  for (int64_t i = 0; i < count; i += kLanes) {
    hn::StoreU(hn::Sub(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
  }
}

// The bounds are the activation where it is none, relu or clip.
void sum_up(const float* const* terms, int count, const float* bias, const float* residual,
            float lo, float hi, float* c, int64_t rows) {
  const D d;
  const V low = hn::Set(d, lo), high = hn::Set(d, hi);
  if (residual) return add_some<true>(terms, count, bias, residual, low, high, c, rows);
  add_some<false>(terms, count, bias, nullptr, low, high, c, rows);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels {

void add(Isa isa, const float* a, const float* b, float* to, int64_t count) {
  STRETTO_ISA_SELECT(isa, add_runs)(a, b, to, count);
}

void subtract(Isa isa, const float* a, const float* b, float* to, int64_t count) {
  STRETTO_ISA_SELECT(isa, subtract_runs)(a, b, to, count);
}

void finish_sums(Isa isa, const Epilogue& e, std::array<const float*, 3> terms, const float* bias,
                 const float* residual, float* c, int64_t rows) {
  const auto end = std::remove(terms.begin(), terms.end(), nullptr);
  const bool clip = e.activation == Activation::kClip, relu = e.activation == Activation::kRelu;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float lo = clip ? e.alpha : relu ? 0 : -kInfinity, hi = clip ? e.beta : kInfinity;
  const bool after = e.residual_after_activation;
  STRETTO_ISA_SELECT(isa, sum_up)
  (terms.data(), static_cast<int>(end - terms.begin()), bias, after ? nullptr : residual, lo, hi, c,
   rows);
  if (tile_applies(e.activation) && !(after && residual)) return;
  const TileSet& set = tile_set(isa);
  Epilogue rest = e;
  if (tile_applies(e.activation)) rest.activation = Activation::kNone;
  set.finish(rest, c, set.lanes, 0, static_cast<int>(rows), 1, residual);
}

}  // namespace stretto::kernels
#endif
