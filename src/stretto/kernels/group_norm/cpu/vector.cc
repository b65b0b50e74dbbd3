// Three passes over a group: sum, squares, scaling. Limit: reading x three times from the cache
// that holds a group.
#include <cmath>

#include "stretto/kernels/group_norm/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/group_norm/cpu/vector.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"
#include "stretto/kernels/simd/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {

void group_norm_run(const GroupNormProblem& p, const Args& args, const Worker& worker) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* scale = reinterpret_cast<const float*>(args.packed);
  const float* bias = scale + p.c;
  const int64_t channels = p.c / p.groups, count = channels * p.hw;
  const Range groups = split(p.n * p.groups, worker);
  for (int64_t g = groups.begin; g < groups.end; ++g) {
    const float* x = static_cast<const float*>(args.inputs[0]) + g * count;
    float* y = static_cast<float*>(args.outputs[0]) + g * count;
    const float mean = sum_of(d, x, count) / static_cast<float>(count);
    const float variance = sum_of_squares(d, x, count, mean) / static_cast<float>(count);
    const float inverse = 1.0f / ::sqrtf(variance + p.epsilon);
    const auto middle = hn::Set(d, mean);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t channel = g % p.groups * channels + c;
      const auto factor = hn::Set(d, inverse * scale[channel]), shift = hn::Set(d, bias[channel]);
      for (int64_t i = c * p.hw; i < (c + 1) * p.hw; i += lanes) {
        const int64_t n = HWY_MIN(lanes, (c + 1) * p.hw - i);
        const auto v = hn::Sub(load_n(d, x + i, n), middle);
        store_n(hn::MulAdd(v, factor, shift), d, y + i, n);
      }
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::group_norm {
namespace {

Fit fits(const GroupNormProblem&) { return Fit::yes(0.3); }

void run(const GroupNormProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, group_norm_run)(p, args, worker);
}

}  // namespace

const Row kVector{.name = "vector",
                  .fits = fits,
                  .packed_bytes = packed_bytes,
                  .pack = pack,
                  .packing = packing,
                  .run = run};

}  // namespace stretto::kernels::group_norm
#endif
