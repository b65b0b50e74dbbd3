// Bounds that let NaN through, compiled once per target (see targets.h). x86's instructions return
// their second operand when one is NaN, so there the order does it at no cost; the emulated vectors
// of the portable build compare instead.
#if defined(STRETTO_KERNELS_SIMD_CLAMP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_SIMD_CLAMP_INL_H_
#undef STRETTO_KERNELS_SIMD_CLAMP_INL_H_
#else
#define STRETTO_KERNELS_SIMD_CLAMP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
HWY_INLINE V at_least(V lo, V x) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Max(lo, x);
#else
  return hn::IfThenElse(hn::Lt(x, lo), lo, x);
#endif
}

template <class V>
HWY_INLINE V at_most(V hi, V x) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Min(hi, x);
#else
  return hn::IfThenElse(hn::Gt(x, hi), hi, x);
#endif
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
