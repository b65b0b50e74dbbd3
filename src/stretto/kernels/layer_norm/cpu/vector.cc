// Sum with the residual, mean, variance, scaling: passes over one row, which stays in the
// first-level cache. Limit: memory bandwidth for tensors beyond the cache.
#include <cmath>

#include "stretto/kernels/layer_norm/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/layer_norm/cpu/vector.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"
#include "stretto/kernels/simd/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {

void layer_norm_run(const LayerNormProblem& p, const Args& args, const Worker& worker) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* scale = reinterpret_cast<const float*>(args.packed);
  const float* bias = scale + p.n;
  const float* inputs = static_cast<const float*>(args.inputs[0]);
  const float* residuals = p.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* outputs = static_cast<float*>(args.outputs[0]);
  const Range rows = split(p.m, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* y = outputs + r * p.n;
    const float* x = inputs + r * p.n;
    float* kept = p.sum_output ? static_cast<float*>(args.outputs[1]) + r * p.n : y;
    if (residuals != nullptr || p.sum_output) {
      const float* residual = residuals != nullptr ? residuals + r * p.n : nullptr;
      for (int64_t i = 0; i < p.n; i += lanes) {
        const int64_t n = HWY_MIN(lanes, p.n - i);
        auto v = load_n(d, x + i, n);
        if (residual != nullptr) v = hn::Add(v, load_n(d, residual + i, n));
        store_n(v, d, kept + i, n);
      }
      x = kept;
    }
    const float mean = p.rms ? 0.0f : sum_of(d, x, p.n) / static_cast<float>(p.n);
    const float variance = sum_of_squares(d, x, p.n, mean) / static_cast<float>(p.n);
    const auto inverse = hn::Set(d, 1.0f / ::sqrtf(variance + p.epsilon));
    const auto middle = hn::Set(d, mean);
    for (int64_t i = 0; i < p.n; i += lanes) {
      const int64_t n = HWY_MIN(lanes, p.n - i);
      const auto v = hn::Mul(hn::Sub(load_n(d, x + i, n), middle), inverse);
      store_n(hn::MulAdd(v, load_n(d, scale + i, n), load_n(d, bias + i, n)), d, y + i, n);
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::layer_norm {
namespace {

Fit fits(const LayerNormProblem&) { return Fit::yes(0.3); }

void run(const LayerNormProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, layer_norm_run)(p, args, worker);
}

}  // namespace

const Row kVector{.name = "vector",
                  .fits = fits,
                  .packed_bytes = packed_bytes,
                  .pack = pack,
                  .packing = packing,
                  .run = run};

}  // namespace stretto::kernels::layer_norm
#endif
