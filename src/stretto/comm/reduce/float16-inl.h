// Converts fp16 and bf16 in memory to and from fp32 vectors, rounding to nearest even. Compiled
// once per target.
#if defined(STRETTO_COMM_FLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_COMM_FLOAT16_INL_H_
#undef STRETTO_COMM_FLOAT16_INL_H_
#else
#define STRETTO_COMM_FLOAT16_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "stretto/tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::comm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_half(D d, const uint16_t* from) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(hn::Rebind<uint16_t, D>(), from)));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = half_to_float(from[i]);
  return hn::Load(d, lanes);
#endif
}

template <class D>
HWY_INLINE void store_half(hn::Vec<D> v, D d, uint16_t* to) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  const hn::Rebind<hwy::float16_t, D> dh;
  const hn::Rebind<uint16_t, D> du;
  hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, v)), du, to);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = float_to_half(lanes[i]);
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load_bfloat16(D d, const uint16_t* from) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(
      d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, D>(), from))));
}

// The upper half of each fp32 lane after rounding; NaN stays a (quiet) NaN.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round_bfloat16(hn::Vec<D> v, D) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto nan = hn::RebindMask(du, hn::IsNaN(v));
  return hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
}

template <class D>
HWY_INLINE void store_bfloat16(hn::Vec<D> v, D d, uint16_t* to) {
  // Highway converts to narrower integers from signed ones only, saturating: the upper half is
  // sign-extended first, which makes it fit.
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> dn;
  const auto upper = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(di, round_bfloat16(v, d))));
  hn::StoreU(hn::DemoteTo(dn, upper), dn, reinterpret_cast<int16_t*>(to));
}

}  // namespace stretto::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
