#include "stretto/media/operators/normalise_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/media/operators/normalise_kernel.cc"
#include "stretto/base/simd_targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/media/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::media::operators::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace elements = stretto::media::HWY_NAMESPACE;

using elements::AsBFloat;
using elements::AsFloat;
using elements::AsHalf;
using elements::D;
using elements::kFloats;
using elements::kLanes;
using elements::to_floats;
using elements::V;

// Three vectors of numbers that repeat.
struct Repeat {
  V v[3];
};

// Element i takes x[i % 3]: three vectors hold a whole number of turns.
HWY_INLINE Repeat turns(const float* x) {
  HWY_ALIGN float values[3 * kLanes];
  for (int64_t i = 0; i < 3 * kLanes; ++i) values[i] = x[i % 3];
  return {{hn::Load(kFloats, values), hn::Load(kFloats, values + kLanes),
           hn::Load(kFloats, values + 2 * kLanes)}};
}

template <class Type>
HWY_INLINE void scale_all(const uint8_t* HWY_RESTRICT from, int64_t count, const Repeat& scale,
                          const Repeat& offset, typename Type::T* HWY_RESTRICT to) {
  const hn::Rebind<typename Type::T, D> stored;
  int64_t i = 0;
  for (; i + 3 * kLanes <= count; i += 3 * kLanes) {
    for (int64_t k = 0; k < 3; ++k) {
      const V v = hn::MulAdd(to_floats(from + i + k * kLanes), scale.v[k], offset.v[k]);
      hn::StoreU(Type::encode(v), stored, to + i + k * kLanes);
    }
  }
  if (i == count) return;
  uint8_t last[3 * kLanes] = {};
  typename Type::T values[3 * kLanes];
  for (int64_t j = i; j < count; ++j) last[j - i] = from[j];
  for (int64_t k = 0; k < 3; ++k) {
    const V v = hn::MulAdd(to_floats(last + k * kLanes), scale.v[k], offset.v[k]);
    hn::StoreU(Type::encode(v), stored, values + k * kLanes);
  }
  for (int64_t j = i; j < count; ++j) to[j] = values[j - i];
}

HWY_INLINE void scale_elements(const uint8_t* from, int64_t count, const Repeat& scale,
                               const Repeat& offset, DType dtype, void* to) {
  switch (dtype) {
    case DType::kFloat16:
      return scale_all<AsHalf>(from, count, scale, offset, static_cast<uint16_t*>(to));
    case DType::kBFloat16:
      return scale_all<AsBFloat>(from, count, scale, offset, static_cast<uint16_t*>(to));
    default:
      return scale_all<AsFloat>(from, count, scale, offset, static_cast<float*>(to));
  }
}

void scale_one(const uint8_t* from, int64_t count, float scale, float offset, DType dtype,
               void* to) {
  const V s = hn::Set(kFloats, scale), o = hn::Set(kFloats, offset);
  scale_elements(from, count, {{s, s, s}}, {{o, o, o}}, dtype, to);
}

void scale_three(const uint8_t* from, int64_t count, const float* scale, const float* offset,
                 DType dtype, void* to) {
  scale_elements(from, count, turns(scale), turns(offset), dtype, to);
}

}  // namespace stretto::media::operators::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::media::operators {

void scale_bytes(const uint8_t* from, int64_t count, float scale, float offset, DType dtype,
                 void* to, Isa isa) {
  STRETTO_ISA_SELECT(isa, scale_one)(from, count, scale, offset, dtype, to);
}

void scale_rgb_bytes(const uint8_t* from, int64_t pixels, const float* scale, const float* offset,
                     DType dtype, void* to, Isa isa) {
  STRETTO_ISA_SELECT(isa, scale_three)(from, 3 * pixels, scale, offset, dtype, to);
}

}  // namespace stretto::media::operators
#endif
