// The inverse transform on Highway vectors, compiled once per target (base/simd_targets.h).
#if defined(STRETTO_MEDIA_JPEG_INVERSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_MEDIA_JPEG_INVERSE_INL_H_
#undef STRETTO_MEDIA_JPEG_INVERSE_INL_H_
#else
#define STRETTO_MEDIA_JPEG_INVERSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "stretto/media/jpeg/inverse.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::media::jpeg::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// A 128-bit block of a vector has the row of one block of coefficients: nothing is exchanged
// between them. Sums of two products are one instruction there.
using Words = hn::ScalableTag<int16_t>;
using Sums = hn::RepartitionToWide<Words>;
using Row = hn::Vec<Words>;
using Sum = hn::Vec<Sums>;
constexpr int kGroup = static_cast<int>(hn::MaxLanes(Words()) / 8);

// Pairs of numbers of two rows, of their first and of their last four columns.
struct Pairs {
  Row low, high;
};
HWY_INLINE Pairs pairs(Row a, Row b) {
  const Words d;
  return {hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)};
}

// Of each pair, first * kFirst + second * kSecond.
template <int kFirst, int kSecond>
HWY_INLINE Sum weighted(Row v) {
  static_assert(kFirst >= -32768 && kFirst < 32768 && kSecond >= -32768 && kSecond < 32768);
  constexpr auto kBoth =
      static_cast<int32_t>(static_cast<uint32_t>(kSecond) << 16 | (kFirst & 0xFFFF));
  Sum unused = hn::Zero(Sums());
  return hn::ReorderWidenMulAccumulate(Sums(), v, hn::BitCast(Words(), hn::Set(Sums(), kBoth)),
                                       hn::Zero(Sums()), unused);
}

// Half of the columns of one pass: the eight results, before they are put together again.
template <int kShift>
HWY_INLINE void half_pass(Row p04, Row p26, Row p71, Row p53, Row z34, Sum* HWY_RESTRICT out) {
  const Sum round = hn::Set(Sums(), 1 << (kShift - 1));
  const Sum t0 = hn::Add(weighted<8192, 8192>(p04), round);
  const Sum t1 = hn::Add(weighted<8192, -8192>(p04), round);
  const Sum t3 = weighted<4433 + 6270, 4433>(p26), t2 = weighted<4433, 4433 - 15137>(p26);
  const Sum z3 = weighted<9633 - 16069, 9633>(z34), z4 = weighted<9633, 9633 - 3196>(z34);
  const Sum b3 = hn::Add(weighted<2446 - 7373, -7373>(p71), z3);
  const Sum b0 = hn::Add(weighted<-7373, 12299 - 7373>(p71), z4);
  const Sum b2 = hn::Add(weighted<16819 - 20995, -20995>(p53), z4);
  const Sum b1 = hn::Add(weighted<-20995, 25172 - 20995>(p53), z3);
  const Sum a0 = hn::Add(t0, t3), a3 = hn::Sub(t0, t3);
  const Sum a1 = hn::Add(t1, t2), a2 = hn::Sub(t1, t2);
  out[0] = hn::ShiftRight<kShift>(hn::Add(a0, b0));
  out[7] = hn::ShiftRight<kShift>(hn::Sub(a0, b0));
  out[1] = hn::ShiftRight<kShift>(hn::Add(a1, b1));
  out[6] = hn::ShiftRight<kShift>(hn::Sub(a1, b1));
  out[2] = hn::ShiftRight<kShift>(hn::Add(a2, b2));
  out[5] = hn::ShiftRight<kShift>(hn::Sub(a2, b2));
  out[3] = hn::ShiftRight<kShift>(hn::Add(a3, b3));
  out[4] = hn::ShiftRight<kShift>(hn::Sub(a3, b3));
}

template <int kShift>
HWY_INLINE void pass(Row* HWY_RESTRICT v) {
  const Pairs p04 = pairs(v[0], v[4]), p26 = pairs(v[2], v[6]);
  const Pairs p71 = pairs(v[7], v[1]), p53 = pairs(v[5], v[3]);
  const Pairs z34 = pairs(hn::Add(v[7], v[3]), hn::Add(v[5], v[1]));
  Sum low[8], high[8];
  half_pass<kShift>(p04.low, p26.low, p71.low, p53.low, z34.low, low);
  half_pass<kShift>(p04.high, p26.high, p71.high, p53.high, z34.high, high);
  for (int i = 0; i < 8; ++i) v[i] = hn::ReorderDemote2To(Words(), low[i], high[i]);
}

// Rows to columns, in each 128-bit block.
HWY_INLINE void transpose_words(Row* HWY_RESTRICT v) {
  const Words d;
  const Sums d32;
  const hn::RepartitionToWide<Sums> d64;
  Row a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = hn::InterleaveLower(d, v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = hn::InterleaveUpper(d, v[2 * i], v[2 * i + 1]);
  }
  const auto low32 = [&](Row x, Row y) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(d32, hn::BitCast(d32, x), hn::BitCast(d32, y)));
  };
  const auto high32 = [&](Row x, Row y) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(d32, hn::BitCast(d32, x), hn::BitCast(d32, y)));
  };
  for (int i = 0; i < 2; ++i) {  // columns 0 and 1, 2 and 3, ... of rows 4 * i to 4 * i + 3
    b[4 * i] = low32(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = high32(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = low32(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = high32(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const auto x = hn::BitCast(d64, b[i]), y = hn::BitCast(d64, b[4 + i]);
    v[2 * i] = hn::BitCast(d, hn::InterleaveLower(d64, x, y));
    v[2 * i + 1] = hn::BitCast(d, hn::InterleaveUpper(d64, x, y));
  }
}

HWY_NOINLINE void inverse(int16_t* HWY_RESTRICT coefficients, uint8_t* const* to,
                          const int64_t* stride) {
  const Words d;
  Row v[8];
  for (int r = 0; r < 8; ++r) {
    v[r] = hn::Load(d, coefficients + r * 8 * kGroup);
    hn::Store(hn::Zero(d), d, coefficients + r * 8 * kGroup);
  }
  pass<11>(v);
  transpose_words(v);
  pass<18>(v);
  transpose_words(v);
  const hn::Rebind<uint8_t, Words> bytes;
  HWY_ALIGN uint8_t rows[8][8 * kGroup];
  for (int r = 0; r < 8; ++r) {
    hn::Store(hn::DemoteTo(bytes, hn::Add(v[r], hn::Set(d, 128))), bytes, rows[r]);
  }
  for (int b = 0; b < kGroup; ++b) {
    for (int r = 0; r < 8; ++r) std::memcpy(to[b] + r * stride[b], rows[r] + 8 * b, 8);
  }
}
#else
constexpr int kGroup = 1;

HWY_NOINLINE void inverse(int16_t* HWY_RESTRICT coefficients, uint8_t* const* to,
                          const int64_t* stride) {
  inverse_reference(coefficients, to[0], stride[0]);
  std::memset(coefficients, 0, 64 * sizeof(int16_t));
}
#endif

}  // namespace stretto::media::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
