#include "stretto/comm/reduce_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/comm/reduce_sum.cc"
#include "stretto/base/simd_targets.h"
// Highway's loop over targets comes after it.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/comm/float16-inl.h"

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

// `kVectors` vectors from element `at` on.
template <class Type, int kVectors>
HWY_INLINE void sum_vectors(const void* const* sources, const HostGroup* groups, size_t group_count,
                            double divisor, int64_t at, typename Type::Stored* to) {
  using D = typename Type::D;
  using T = hn::TFromD<D>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> total[kVectors], host[kVectors];
  for (size_t g = 0; g < group_count; ++g) {
    const HostGroup& group = groups[g];
    const auto* first = static_cast<const typename Type::Stored*>(sources[group.begin]) + at;
    for (int v = 0; v < kVectors; ++v) host[v] = Type::load(first + v * lanes);
    for (int s = group.begin + 1; s < group.end; ++s) {
      const auto* from = static_cast<const typename Type::Stored*>(sources[s]) + at;
      for (int v = 0; v < kVectors; ++v) host[v] = hn::Add(host[v], Type::load(from + v * lanes));
    }
    if (group.divisor != 1)
      for (int v = 0; v < kVectors; ++v)
        host[v] = hn::Div(host[v], hn::Set(d, static_cast<T>(group.divisor)));
    if (Type::kNarrow && group.round)
      for (int v = 0; v < kVectors; ++v) host[v] = rounded<Type>(host[v]);
    for (int v = 0; v < kVectors; ++v) total[v] = g == 0 ? host[v] : hn::Add(total[v], host[v]);
  }
  if (divisor != 1)
    for (int v = 0; v < kVectors; ++v)
      total[v] = hn::Div(total[v], hn::Set(d, static_cast<T>(divisor)));
  for (int v = 0; v < kVectors; ++v) Type::store(total[v], to + at + v * lanes);
}

// One element, in the same order and with the same rounding.
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

template <class Type>
HWY_INLINE void sum_all(const void* const* sources, const HostGroup* groups, size_t group_count,
                        double divisor, int64_t count, void* to) {
  constexpr int kUnroll = 4;
  auto* out = static_cast<typename Type::Stored*>(to);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Type::D()));
  int64_t at = 0;
  for (; at + kUnroll * lanes <= count; at += kUnroll * lanes)
    sum_vectors<Type, kUnroll>(sources, groups, group_count, divisor, at, out);
  for (; at + lanes <= count; at += lanes)
    sum_vectors<Type, 1>(sources, groups, group_count, divisor, at, out);
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
