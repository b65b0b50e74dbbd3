#include "stretto/comm/reduce/reduce_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/comm/reduce/reduce_sum.cc"
#include "stretto/base/simd_targets.h"
// Highway's loop over targets comes after it.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/comm/reduce/float16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::comm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Float32 {
  using Stored = float;
  using D = hn::ScalableTag<float>;
  static constexpr bool kNarrow = false;
  static HWY_INLINE hn::Vec<D> load(const float* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(hn::Vec<D> v, float* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE float get(const float* p) { return *p; }
  static HWY_INLINE void put(float x, float* p) { *p = x; }
};
struct Float64 {
  using Stored = double;
  using D = hn::ScalableTag<double>;
  static constexpr bool kNarrow = false;
  static HWY_INLINE hn::Vec<D> load(const double* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(hn::Vec<D> v, double* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE double get(const double* p) { return *p; }
  static HWY_INLINE void put(double x, double* p) { *p = x; }
};
struct Half {
  using Stored = uint16_t;
  using D = hn::ScalableTag<float>;
  static constexpr bool kNarrow = true;
  static HWY_INLINE hn::Vec<D> load(const uint16_t* p) { return load_half(D(), p); }
  static HWY_INLINE void store(hn::Vec<D> v, uint16_t* p) { store_half(v, D(), p); }
  static HWY_INLINE float get(const uint16_t* p) { return half_to_float(*p); }
  static HWY_INLINE void put(float x, uint16_t* p) { *p = float_to_half(x); }
};
struct BFloat16 {
  using Stored = uint16_t;
  using D = hn::ScalableTag<float>;
  static constexpr bool kNarrow = true;
  static HWY_INLINE hn::Vec<D> load(const uint16_t* p) { return load_bfloat16(D(), p); }
  static HWY_INLINE void store(hn::Vec<D> v, uint16_t* p) { store_bfloat16(v, D(), p); }
  static HWY_INLINE float get(const uint16_t* p) { return bfloat16_to_float(*p); }
  static HWY_INLINE void put(float x, uint16_t* p) { *p = float_to_bfloat16(x); }
};

template <class Type>
HWY_INLINE hn::Vec<typename Type::D> rounded(hn::Vec<typename Type::D> v) {
  typename Type::Stored stored[hn::MaxLanes(typename Type::D())];
  Type::store(v, stored);
  return Type::load(stored);
}

// Four vectors as separate variables, which compilers keep in registers without unrolling.
template <class Type>
struct Four {
  using D = typename Type::D;
  using V = hn::Vec<D>;
  using Stored = typename Type::Stored;
  V a, b, c, e;

  static HWY_INLINE Four load(const void* base, int64_t at) {
    const Stored* from = static_cast<const Stored*>(base) + at;
    const size_t lanes = hn::Lanes(D());
    return {Type::load(from), Type::load(from + lanes), Type::load(from + 2 * lanes),
            Type::load(from + 3 * lanes)};
  }
  HWY_INLINE void store(Stored* to) const {
    const size_t lanes = hn::Lanes(D());
    Type::store(a, to);
    Type::store(b, to + lanes);
    Type::store(c, to + 2 * lanes);
    Type::store(e, to + 3 * lanes);
  }
  HWY_INLINE Four plus(Four o) const {
    return {hn::Add(a, o.a), hn::Add(b, o.b), hn::Add(c, o.c), hn::Add(e, o.e)};
  }
  HWY_INLINE Four over(double divisor) const {
    const V by = hn::Set(D(), static_cast<hn::TFromD<D>>(divisor));
    return {hn::Div(a, by), hn::Div(b, by), hn::Div(c, by), hn::Div(e, by)};
  }
  HWY_INLINE Four rounded_to_type() const {
    return {rounded<Type>(a), rounded<Type>(b), rounded<Type>(c), rounded<Type>(e)};
  }
};

template <class Type>
HWY_INLINE void sum_four(const void* const* sources, const HostGroup* groups, size_t group_count,
                         double divisor, int64_t at, typename Type::Stored* to) {
  const auto host_sum = [&](const HostGroup& group) HWY_ATTR {
    auto host = Four<Type>::load(sources[group.begin], at);
    for (int s = group.begin + 1; s < group.end; ++s)
      host = host.plus(Four<Type>::load(sources[s], at));
    if (group.divisor != 1) host = host.over(group.divisor);
    if (Type::kNarrow && group.round) host = host.rounded_to_type();
    return host;
  };
  auto total = host_sum(groups[0]);
  for (size_t g = 1; g < group_count; ++g) total = total.plus(host_sum(groups[g]));
  if (divisor != 1) total = total.over(divisor);
  total.store(to + at);
}

// One element at the end, in the same order and with the same rounding.
template <class Type>
HWY_INLINE void sum_element(const void* const* sources, const HostGroup* groups, size_t group_count,
                            double divisor, int64_t at, typename Type::Stored* to) {
  using T = hn::TFromD<typename Type::D>;
  const auto source = [&](int s) HWY_ATTR {
    return Type::get(static_cast<const typename Type::Stored*>(sources[s]) + at);
  };
  T total = 0;
  for (size_t g = 0; g < group_count; ++g) {
    const HostGroup& group = groups[g];
    T host = source(group.begin);
    for (int s = group.begin + 1; s < group.end; ++s) host += source(s);
    if (group.divisor != 1) host /= static_cast<T>(group.divisor);
    if (Type::kNarrow && group.round) {
      typename Type::Stored stored;
      Type::put(host, &stored);
      host = Type::get(&stored);
    }
    total = g == 0 ? host : total + host;
  }
  if (divisor != 1) total /= static_cast<T>(divisor);
  Type::put(total, to + at);
}

// A processor's own prefetch ends where a page does, so memory is fetched a page ahead: of the
// array only, because what lies behind it may be a line that another rank writes.
template <class Type>
HWY_INLINE void sum_all(const void* const* sources, const HostGroup* groups, size_t group_count,
                        double divisor, int64_t count, void* to) {
  auto* out = static_cast<typename Type::Stored*>(to);
  const int64_t step = 4 * static_cast<int64_t>(hn::Lanes(typename Type::D()));
  constexpr int64_t kLine = 64 / sizeof(typename Type::Stored),
                    kAhead = 4096 / sizeof(typename Type::Stored);
  const int source_count = groups[group_count - 1].end;
  int64_t at = 0;
  for (; at + step <= count; at += step) {
    for (int s = 0; s < source_count && at + kAhead + step <= count; ++s) {
      const auto* ahead = static_cast<const typename Type::Stored*>(sources[s]) + at + kAhead;
      for (int64_t line = 0; line < step; line += kLine) hwy::Prefetch(ahead + line);
    }
    sum_four<Type>(sources, groups, group_count, divisor, at, out);
  }
  for (; at < count; ++at) sum_element<Type>(sources, groups, group_count, divisor, at, out);
}

void sum(DType dtype, const void* const* sources, const HostGroup* groups, size_t group_count,
         double divisor, int64_t count, void* to) {
  switch (dtype) {
    case DType::kFloat32:
      return sum_all<Float32>(sources, groups, group_count, divisor, count, to);
    case DType::kFloat64:
      return sum_all<Float64>(sources, groups, group_count, divisor, count, to);
    case DType::kFloat16:
      return sum_all<Half>(sources, groups, group_count, divisor, count, to);
    default:
      return sum_all<BFloat16>(sources, groups, group_count, divisor, count, to);
  }
}

}  // namespace stretto::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "stretto/base/error.h"

namespace stretto::comm {

void sum_sources(Isa isa, DType dtype, std::span<const void* const> sources,
                 std::span<const HostGroup> groups, double divisor, int64_t count, void* to) {
  STRETTO_CHECK(is_float(dtype), "sums of {} are not made here", dtype_name(dtype));
  STRETTO_ISA_SELECT(isa, sum)
  (dtype, sources.data(), groups.data(), groups.size(), divisor, count, to);
}

}  // namespace stretto::comm
#endif
