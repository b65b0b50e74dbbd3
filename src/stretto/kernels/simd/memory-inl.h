// Partial loads and stores, and the register transposes behind layout changes (see targets.h).
#if defined(STRETTO_KERNELS_SIMD_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_KERNELS_SIMD_MEMORY_INL_H_
#undef STRETTO_KERNELS_SIMD_MEMORY_INL_H_
#else
#define STRETTO_KERNELS_SIMD_MEMORY_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether masked accesses touch only the lanes that are set: then partial accesses need no detour.
#undef STRETTO_SAFE_MASKS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define STRETTO_SAFE_MASKS 1
#else
#define STRETTO_SAFE_MASKS 0
#endif

// The first `count` floats at p, 0 < count <= lanes; the other lanes are `fill`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_n(D d, const float* p, int64_t count, float fill = 0) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) return hn::LoadU(d, p);
#if STRETTO_SAFE_MASKS
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
#else
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  for (int64_t i = 0; i < lanes; ++i) buffer[i] = i < count ? p[i] : fill;
  return hn::Load(d, buffer);
#endif
}

// Stores the first `count` lanes and touches nothing else.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_n(V v, D d, float* p, int64_t count) {
  if (count >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, p);
#if STRETTO_SAFE_MASKS
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  for (int64_t i = 0; i < count; ++i) p[i] = buffer[i];
#endif
}

template <class D>
HWY_INLINE float sum_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}
template <class D>
HWY_INLINE float max_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// The larger, NaN when either is: unlike the instruction, which drops the first operand's NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V max_nan(D, V accumulated, V v) {
  return hn::IfThenElse(hn::IsNaN(v), v, hn::IfThenElse(hn::Lt(accumulated, v), v, accumulated));
}

// Quads of 4 floats at p, p + stride, ... as one vector.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_quads(D d, const float* p, int64_t stride) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kQuads = hn::MaxLanes(half) / 4;
    return hn::Combine(d, load_quads(half, p + kQuads * stride, stride),
                       load_quads(half, p, stride));
  }
}

// to[c * to_stride + r] = from[r * from_stride + c] for r, c < lanes. Loading quads of rows 4 apart
// leaves only 4x4 transposes inside 128-bit blocks: no cross-lane shuffle.
template <class D>
HWY_INLINE void transpose_square(D d, const float* from, int64_t from_stride, float* to,
                                 int64_t to_stride) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<D>> wide;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t c = 0; c < kLanes; c += 4) {
    const auto r0 = load_quads(d, from + c, 4 * from_stride);
    const auto r1 = load_quads(d, from + from_stride + c, 4 * from_stride);
    const auto r2 = load_quads(d, from + 2 * from_stride + c, 4 * from_stride);
    const auto r3 = load_quads(d, from + 3 * from_stride + c, 4 * from_stride);
    const auto a0 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
    const auto a1 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
    const auto b0 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
    const auto b1 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, a0, a1)), d, to + c * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, a0, a1)), d, to + (c + 1) * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, b0, b1)), d, to + (c + 2) * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, b0, b1)), d, to + (c + 3) * to_stride);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
