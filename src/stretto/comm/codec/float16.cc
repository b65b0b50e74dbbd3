#include <cstring>

#include "stretto/comm/codec/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/comm/codec/float16.cc"
#include "stretto/base/simd_targets.h"
// Highway's loop over targets comes after it.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/comm/reduce/float16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::comm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;

struct Half {
  static HWY_INLINE hn::Vec<F> load(const uint16_t* p) { return load_half(F(), p); }
  static HWY_INLINE void store(hn::Vec<F> v, uint16_t* p) { store_half(v, F(), p); }
};
struct BFloat16 {
  static HWY_INLINE hn::Vec<F> load(const uint16_t* p) { return load_bfloat16(F(), p); }
  static HWY_INLINE void store(hn::Vec<F> v, uint16_t* p) { store_bfloat16(v, F(), p); }
};

// Encodes one vector; returns all ones in lanes that hold inf or NaN. The residual keeps only
// finite losses: a value too large for fp16 was sent as infinity.
template <class Type>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<F>> encode_vector(const float* in, float* residual,
                                                          uint16_t* out) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  const auto exponent = hn::Set(du, 0x7f800000u);
  const auto infinite = [&](hn::Vec<F> v) HWY_ATTR {
    return hn::Eq(hn::And(hn::BitCast(du, v), exponent), exponent);
  };
  const auto x = hn::LoadU(d, in);
  const auto bad = infinite(x);
  if (residual == nullptr) {
    Type::store(x, out);
  } else {
    const auto before = hn::LoadU(d, residual);
    const auto value = hn::IfThenElse(hn::RebindMask(d, bad), x, hn::Add(x, before));
    Type::store(value, out);
    const auto sent = Type::load(out);
    const auto lost = hn::RebindMask(d, infinite(sent));
    hn::StoreU(hn::IfThenElse(lost, before, hn::Sub(value, sent)), d, residual);
  }
  return hn::VecFromMask(du, bad);
}

template <class Type>
HWY_INLINE NonFinite encode(const float* in, float* residual, int64_t count, std::byte* out) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kBlock = 2048;
  auto* to = reinterpret_cast<uint16_t*>(out);
  NonFinite found;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = HWY_MIN(count, begin + kBlock);
    auto any = hn::Zero(du);
    int64_t at = begin;
    for (; at + lanes <= end; at += lanes)
      any = hn::Or(any, encode_vector<Type>(in + at, residual ? residual + at : nullptr, to + at));
    if (at < end) {
      const size_t rest = static_cast<size_t>(end - at);
      float x[hn::MaxLanes(d)] = {}, lost[hn::MaxLanes(d)] = {};
      uint16_t y[hn::MaxLanes(d)];
      memcpy(x, in + at, rest * sizeof(float));
      if (residual) memcpy(lost, residual + at, rest * sizeof(float));
      any = hn::Or(any, encode_vector<Type>(x, residual ? lost : nullptr, y));
      memcpy(to + at, y, rest * sizeof(uint16_t));
      if (residual) memcpy(residual + at, lost, rest * sizeof(float));
    }
    if (hn::AllTrue(du, hn::Eq(any, hn::Zero(du)))) continue;
    for (int64_t i = begin; i < end; ++i) {
      uint32_t bits;
      memcpy(&bits, in + i, sizeof bits);
      if ((bits & 0x7f800000u) != 0x7f800000u) continue;
      if (found.count++ == 0) found.first = i;
    }
  }
  return found;
}

template <class Type, bool kAdd>
HWY_INLINE void decode(const std::byte* in, int64_t count, float* out) {
  const F d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* from = reinterpret_cast<const uint16_t*>(in);
  const auto one = [&](const uint16_t* y, float* x) HWY_ATTR {
    const auto value = Type::load(y);
    hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, x), value) : value, d, x);
  };
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) one(from + at, out + at);
  if (at == count) return;
  const size_t rest = static_cast<size_t>(count - at);
  uint16_t y[hn::MaxLanes(d)] = {};
  float x[hn::MaxLanes(d)] = {};
  memcpy(y, from + at, rest * sizeof(uint16_t));
  memcpy(x, out + at, rest * sizeof(float));
  one(y, x);
  memcpy(out + at, x, rest * sizeof(float));
}

NonFinite encode_half(const float* in, float* residual, int64_t count, std::byte* out) {
  return encode<Half>(in, residual, count, out);
}
NonFinite encode_bfloat16(const float* in, float* residual, int64_t count, std::byte* out) {
  return encode<BFloat16>(in, residual, count, out);
}
void decode_half(const std::byte* in, int64_t count, float* out) {
  decode<Half, false>(in, count, out);
}
void decode_bfloat16(const std::byte* in, int64_t count, float* out) {
  decode<BFloat16, false>(in, count, out);
}
void add_half(const std::byte* in, int64_t count, float* out) {
  decode<Half, true>(in, count, out);
}
void add_bfloat16(const std::byte* in, int64_t count, float* out) {
  decode<BFloat16, true>(in, count, out);
}

}  // namespace stretto::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::comm {

int64_t float16_bytes(int64_t count) { return 2 * count; }

NonFinite half_encode(Isa isa, const float* in, float* residual, int64_t count, std::byte* out) {
  return STRETTO_ISA_SELECT(isa, encode_half)(in, residual, count, out);
}
void half_decode(Isa isa, const std::byte* in, int64_t count, float* out) {
  STRETTO_ISA_SELECT(isa, decode_half)(in, count, out);
}
void half_decode_add(Isa isa, const std::byte* in, int64_t count, float* out) {
  STRETTO_ISA_SELECT(isa, add_half)(in, count, out);
}
NonFinite bfloat16_encode(Isa isa, const float* in, float* residual, int64_t count,
                          std::byte* out) {
  return STRETTO_ISA_SELECT(isa, encode_bfloat16)(in, residual, count, out);
}
void bfloat16_decode(Isa isa, const std::byte* in, int64_t count, float* out) {
  STRETTO_ISA_SELECT(isa, decode_bfloat16)(in, count, out);
}
void bfloat16_decode_add(Isa isa, const std::byte* in, int64_t count, float* out) {
  STRETTO_ISA_SELECT(isa, add_bfloat16)(in, count, out);
}

}  // namespace stretto::comm
#endif
