#include <cmath>
#include <cstring>

#include "stretto/comm/codec/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/comm/codec/int8.cc"
#include "stretto/base/simd_targets.h"
// Highway's loop over targets comes after it.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stretto::comm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr int64_t kBlockBytes = sizeof(float) + kInt8Block;
constexpr int64_t kTogether = 4;
// Below this the inverse of the scale would overflow, so the block is sent as zeros and all of it
// goes to the residual.
constexpr float kLeast = 1e-35f;

struct BlockScale {
  float scale, inverse;
};
// With 16 bits in its mantissa, code * scale is exact, so that it does not matter whether a
// compiler fuses it with the sum or difference that follows. Rounded up, so that no code exceeds
// `codes`.
HWY_INLINE BlockScale scale_of(float greatest, float codes) {
  if (greatest < kLeast) return {0, 0};
  float scale = greatest / codes;
  uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  bits = (bits + 0xff) & ~uint32_t{0xff};
  memcpy(&scale, &bits, sizeof scale);
  return {scale, 1 / scale};
}

// values = in + residual of one block; returns the bits of the greatest magnitude. Magnitudes
// compare like integers, and inf and NaN are the greatest.
template <bool kResidual>
HWY_INLINE uint32_t load_block(const float* HWY_RESTRICT in, const float* HWY_RESTRICT residual,
                               float* HWY_RESTRICT values) {
  const F d;
  const hn::RebindToSigned<F> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(di, 0x7fffffff);
  auto a = hn::Zero(di), b = a;
  const auto load = [&](int64_t at) HWY_ATTR {
    const auto x = hn::LoadU(d, in + at);
    const auto v = kResidual ? hn::Add(x, hn::LoadU(d, residual + at)) : x;
    hn::Store(v, d, values + at);
    return hn::And(hn::BitCast(di, v), magnitude);
  };
  for (int64_t at = 0; at < kInt8Block; at += 2 * lanes) {
    a = hn::Max(a, load(at));
    b = hn::Max(b, load(at + lanes));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, hn::Max(a, b))));
}

template <bool kResidual>
HWY_INLINE void store_block(const float* HWY_RESTRICT values, BlockScale block,
                            float* HWY_RESTRICT residual, std::byte* HWY_RESTRICT out) {
  const F d;
  const hn::Rebind<int8_t, F> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  memcpy(out, &block.scale, sizeof block.scale);
  auto* codes = reinterpret_cast<int8_t*>(out + sizeof block.scale);
  const auto scale = hn::Set(d, block.scale), inverse = hn::Set(d, block.inverse);
  for (int64_t at = 0; at < kInt8Block; at += lanes) {
    const auto v = hn::Load(d, values + at);
    const auto code = hn::NearestInt(hn::Mul(v, inverse));
    hn::StoreU(hn::DemoteTo(d8, code), d8, codes + at);
    if (kResidual) hn::StoreU(hn::Sub(v, hn::Mul(hn::ConvertTo(d, code), scale)), d, residual + at);
  }
}

// Encodes a block with inf or NaN, without its residual. It is rare, so it works by element.
HWY_INLINE void encode_marked(const float* in, int64_t count, int64_t offset, std::byte* out,
                              NonFinite* found) {
  float greatest = 0;
  for (int64_t i = 0; i < count; ++i)
    if (__builtin_isfinite(in[i])) greatest = HWY_MAX(greatest, __builtin_fabsf(in[i]));
  const BlockScale block = scale_of(HWY_MAX(greatest, 2 * kLeast), 126);
  const float marked = -block.scale;
  memcpy(out, &marked, sizeof marked);
  auto* codes = reinterpret_cast<int8_t*>(out + sizeof marked);
  for (int64_t i = 0; i < count; ++i) {
    if (__builtin_isfinite(in[i])) {
      codes[i] = static_cast<int8_t>(__builtin_rintf(in[i] * block.inverse));
      continue;
    }
    codes[i] = static_cast<int8_t>(in[i] != in[i] ? -128 : in[i] > 0 ? 127 : -127);
    if (found->count++ == 0) found->first = offset + i;
  }
}

// Encodes whole blocks in one pass over memory, several at a time, because the scale of each needs
// a long chain of operations that the others can hide.
template <bool kResidual>
HWY_INLINE void encode_blocks(const float* in, float* residual, int blocks, int64_t offset,
                              std::byte* out, NonFinite* found) {
  HWY_ALIGN float values[kTogether * kInt8Block];
  uint32_t greatest[kTogether];
  for (int b = 0; b < blocks; ++b)
    greatest[b] =
        load_block<kResidual>(in + b * kInt8Block, kResidual ? residual + b * kInt8Block : nullptr,
                              values + b * kInt8Block);
  for (int b = 0; b < blocks; ++b, out += kBlockBytes) {
    if (greatest[b] >= kInfinity) {
      encode_marked(in + b * kInt8Block, kInt8Block, offset + b * kInt8Block, out, found);
      continue;
    }
    float magnitude;
    memcpy(&magnitude, &greatest[b], sizeof magnitude);
    store_block<kResidual>(values + b * kInt8Block, scale_of(magnitude, 127),
                           kResidual ? residual + b * kInt8Block : nullptr, out);
  }
}

template <bool kResidual>
HWY_INLINE NonFinite encode_all(const float* in, float* residual, int64_t count, std::byte* out) {
  NonFinite found;
  const int64_t blocks = count / kInt8Block, whole = blocks * kInt8Block;
  for (int64_t b = 0; b < blocks; b += kTogether)
    encode_blocks<kResidual>(in + b * kInt8Block, kResidual ? residual + b * kInt8Block : nullptr,
                             static_cast<int>(HWY_MIN(kTogether, blocks - b)), b * kInt8Block,
                             out + b * kBlockBytes, &found);
  if (whole == count) return found;

  // Zeros behind the last values change neither scale nor codes.
  const size_t rest = static_cast<size_t>(count - whole);
  float x[kInt8Block] = {}, lost[kInt8Block] = {};
  std::byte coded[kBlockBytes];
  memcpy(x, in + whole, rest * sizeof(float));
  if (kResidual) memcpy(lost, residual + whole, rest * sizeof(float));
  encode_blocks<kResidual>(x, lost, 1, whole, coded, &found);
  memcpy(out + blocks * kBlockBytes, coded, sizeof(float) + rest);
  if (kResidual) memcpy(residual + whole, lost, rest * sizeof(float));
  return found;
}

NonFinite encode(const float* in, float* residual, int64_t count, std::byte* out) {
  return residual != nullptr ? encode_all<true>(in, residual, count, out)
                             : encode_all<false>(in, residual, count, out);
}

template <bool kAdd>
HWY_INLINE void decode_marked(float scale, const int8_t* codes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int8_t code = codes[i];
    const float value = code == -128                  ? __builtin_nanf("")
                        : code == 127 || code == -127 ? code / 127 * __builtin_inff()
                                                      : -scale * static_cast<float>(code);
    out[i] = kAdd ? out[i] + value : value;
  }
}

template <bool kAdd>
HWY_INLINE void decode_block(const std::byte* in, int64_t count, float* out) {
  const F d;
  const hn::RebindToSigned<F> di;
  const hn::Rebind<int8_t, F> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float block_scale;
  memcpy(&block_scale, in, sizeof block_scale);
  const auto* codes = reinterpret_cast<const int8_t*>(in + sizeof block_scale);
  if (block_scale < 0) return decode_marked<kAdd>(block_scale, codes, count, out);
  const auto scale = hn::Set(d, block_scale);
  const auto one = [&](const int8_t* code, float* to) HWY_ATTR {
    const auto value = hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, code))), scale);
    hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, to), value) : value, d, to);
  };
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) one(codes + at, out + at);
  for (; at < count; ++at) {
    const float value = static_cast<float>(codes[at]) * block_scale;
    out[at] = kAdd ? out[at] + value : value;
  }
}

template <bool kAdd>
HWY_INLINE void decode_all(const std::byte* in, int64_t count, float* out) {
  for (int64_t at = 0; at < count; at += kInt8Block) {
    decode_block<kAdd>(in, HWY_MIN(kInt8Block, count - at), out + at);
    in += kBlockBytes;
  }
}

void decode(const std::byte* in, int64_t count, float* out) { decode_all<false>(in, count, out); }
void decode_add(const std::byte* in, int64_t count, float* out) {
  decode_all<true>(in, count, out);
}

}  // namespace stretto::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::comm {

int64_t int8_bytes(int64_t count) {
  return count + (count + kInt8Block - 1) / kInt8Block * static_cast<int64_t>(sizeof(float));
}

NonFinite int8_encode(Isa isa, const float* in, float* residual, int64_t count, std::byte* out) {
  return STRETTO_ISA_SELECT(isa, encode)(in, residual, count, out);
}
void int8_decode(Isa isa, const std::byte* in, int64_t count, float* out) {
  STRETTO_ISA_SELECT(isa, decode)(in, count, out);
}
void int8_decode_add(Isa isa, const std::byte* in, int64_t count, float* out) {
  STRETTO_ISA_SELECT(isa, decode_add)(in, count, out);
}

}  // namespace stretto::comm
#endif
