#include "stretto/comm/reduce/scan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/comm/reduce/scan.cc"
#include "stretto/base/simd_targets.h"
// Highway's loop over targets comes after it.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stretto::comm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Inf and NaN are the numbers whose exponent bits are all set. Memory is fetched a page ahead, as
// in reduce_sum.cc.
template <typename T>
HWY_INLINE NonFinite scan_bits(const T* data, int64_t count, T exponent) {
  const hn::ScalableTag<T> d;
  constexpr int kUnroll = 4;
  constexpr int64_t kBlock = 2048;  // searched value by value if it holds any
  constexpr int64_t kLine = 64 / sizeof(T), kAhead = 4096 / sizeof(T);
  const int64_t step = kUnroll * static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(d, exponent);
  NonFinite found;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = HWY_MIN(count, begin + kBlock);
    auto a = hn::Zero(d), b = a, c = a, e = a;
    const auto hit = [&](int64_t at) HWY_ATTR {
      return hn::VecFromMask(d, hn::Eq(hn::And(hn::LoadU(d, data + at), mask), mask));
    };
    int64_t at = begin;
    for (; at + step <= end; at += step) {
      if (at + kAhead + step <= count)
        for (int64_t line = 0; line < step; line += kLine) hwy::Prefetch(data + at + kAhead + line);
      a = hn::Or(a, hit(at));
      b = hn::Or(b, hit(at + step / 4));
      c = hn::Or(c, hit(at + step / 2));
      e = hn::Or(e, hit(at + step / 4 * 3));
    }
    const auto any = hn::Or(hn::Or(a, b), hn::Or(c, e));
    if (!hn::AllTrue(d, hn::Eq(any, hn::Zero(d)))) at = begin;
    for (; at < end; ++at) {
      if ((data[at] & exponent) != exponent) continue;
      if (found.count++ == 0) found.first = at;
    }
  }
  return found;
}

NonFinite scan16(const void* data, int64_t count, uint16_t exponent) {
  return scan_bits(static_cast<const uint16_t*>(data), count, exponent);
}
NonFinite scan32(const void* data, int64_t count, uint32_t exponent) {
  return scan_bits(static_cast<const uint32_t*>(data), count, exponent);
}
NonFinite scan64(const void* data, int64_t count, uint64_t exponent) {
  return scan_bits(static_cast<const uint64_t*>(data), count, exponent);
}

}  // namespace stretto::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::comm {

NonFinite scan_non_finite(Isa isa, DType dtype, const void* data, int64_t count) {
  switch (dtype) {
    case DType::kFloat32:
      return STRETTO_ISA_SELECT(isa, scan32)(data, count, 0x7f800000u);
    case DType::kFloat64:
      return STRETTO_ISA_SELECT(isa, scan64)(data, count, 0x7ff0000000000000u);
    case DType::kFloat16:
      return STRETTO_ISA_SELECT(isa, scan16)(data, count, 0x7c00u);
    case DType::kBFloat16:
      return STRETTO_ISA_SELECT(isa, scan16)(data, count, 0x7f80u);
    default:
      return {};
  }
}

}  // namespace stretto::comm
#endif
