// The element types of results on Highway vectors, compiled once per target (base/simd_targets.h).
#if defined(STRETTO_MEDIA_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_MEDIA_ELEMENTS_INL_H_
#undef STRETTO_MEDIA_ELEMENTS_INL_H_
#else
#define STRETTO_MEDIA_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace stretto::media::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<float> kFloats;
using D = decltype(kFloats);
using V = hn::Vec<D>;
using Signed = hn::RebindToSigned<D>;
using Unsigned = hn::RebindToUnsigned<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

HWY_INLINE V to_floats(const uint8_t* p) {
  const hn::Rebind<uint8_t, D> bytes;
  return hn::ConvertTo(kFloats, hn::PromoteTo(Signed(), hn::LoadU(bytes, p)));
}

// The element type that values are stored as, and what they become then.
struct AsFloat {
  using T = float;
  static HWY_INLINE V encode(V v) { return v; }
};
struct AsHalf {
  using T = uint16_t;
  static HWY_INLINE auto encode(V v) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(half, v));
  }
};
struct AsBFloat {  // to nearest, ties to even
  using T = uint16_t;
  static HWY_INLINE auto encode(V v) {
    const Unsigned u;
    const auto bits = hn::BitCast(u, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
    const auto sum = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7FFF)));
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::BitCast(Signed(), hn::ShiftRight<16>(sum)));
  }
};
struct AsByte {  // halves up
  using T = uint8_t;
  static HWY_INLINE auto encode(V v) {
    const auto whole = hn::ConvertTo(Signed(), hn::Add(v, hn::Set(kFloats, 0.5f)));
    return hn::DemoteTo(hn::Rebind<uint8_t, D>(), whole);
  }
};

}  // namespace stretto::media::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
