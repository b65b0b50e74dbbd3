#include "stretto/kernels/simd/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/simd/activation.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {

void activate_array(Activation activation, float alpha, float beta, const float* x, float* y,
                    int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto a = hn::Set(d, alpha), b = hn::Set(d, beta);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(activate(d, activation, a, b, hn::LoadU(d, x + i)), d, y + i);
  }
  if (i == count) return;
  HWY_ALIGN float tail[hn::MaxLanes(d)] = {};
  for (int64_t j = i; j < count; ++j) tail[j - i] = x[j];
  hn::Store(activate(d, activation, a, b, hn::Load(d, tail)), d, tail);
  for (int64_t j = i; j < count; ++j) y[j] = tail[j - i];
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels {

void activate_array(Isa isa, Activation activation, float alpha, float beta, const float* x,
                    float* y, int64_t count) {
  STRETTO_ISA_SELECT(isa, activate_array)(activation, alpha, beta, x, y, count);
}

}  // namespace stretto::kernels
#endif
