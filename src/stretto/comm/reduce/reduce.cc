#include "stretto/comm/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/reduce/reduce_sum.h"

namespace stretto::comm {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct,
                             ReduceOp::kMin, ReduceOp::kMax,     ReduceOp::kAnd,
                             ReduceOp::kOr,  ReduceOp::kXor};

// The type of the arithmetic, and the conversion from the stored type.
template <typename S, typename T>
struct Native {
  using Stored = S;
  using Value = T;
  static T get(S x) { return x; }
  static S put(T x) { return static_cast<S>(x); }
};
struct HalfBits {
  using Stored = uint16_t;
  using Value = float;
  static float get(uint16_t x) { return half_to_float(x); }
  static uint16_t put(float x) { return float_to_half(x); }
};
struct BFloat16Bits {
  using Stored = uint16_t;
  using Value = float;
  static float get(uint16_t x) { return bfloat16_to_float(x); }
  static uint16_t put(float x) { return float_to_bfloat16(x); }
};
// Any byte but 0 is true.
struct Bool {
  using Stored = uint8_t;
  using Value = uint8_t;
  static uint8_t get(uint8_t x) { return x != 0; }
  static uint8_t put(uint8_t x) { return x; }
};

// Integers wrap around. Unsigned arithmetic avoids the undefined overflow of signed types, also of
// those that 8 and 16 bits promote to.
template <typename T, bool = std::is_integral_v<T>>
struct WrappingType {
  using type = T;
};
template <typename T>
struct WrappingType<T, true> {
  using type = std::make_unsigned_t<std::conditional_t<sizeof(T) < sizeof(int), int, T>>;
};
template <typename T>
using Wrapping = typename WrappingType<T>::type;

// NaN if either is NaN; -0 is less than +0. So the result does not depend on the order of
// arguments.
template <bool kGreatest, typename T>
T extreme(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return (std::signbit(a) == kGreatest) ? b : a;
  }
  return (a < b) == kGreatest ? b : a;
}

template <ReduceOp op, typename T>
T combine(T a, T b) {
  using W = Wrapping<T>;
  if constexpr (op == ReduceOp::kSum || op == ReduceOp::kAverage)
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  if constexpr (op == ReduceOp::kProduct)
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  if constexpr (op == ReduceOp::kMin) return extreme<false>(a, b);
  if constexpr (op == ReduceOp::kMax) return extreme<true>(a, b);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (op == ReduceOp::kAnd) return static_cast<T>(a & b);
    if constexpr (op == ReduceOp::kOr) return static_cast<T>(a | b);
    if constexpr (op == ReduceOp::kXor) return static_cast<T>(a ^ b);
  }
  return a;
}

// Works on blocks that stay in the first-level cache, one source after the other.
template <typename Type, ReduceOp op>
void fold(std::span<const ReduceSource> sources, std::span<const HostGroup> groups, int64_t divisor,
          int64_t count, void* to) {
  using Stored = typename Type::Stored;
  using T = typename Type::Value;
  constexpr int64_t kBlock = 512;
  T host[kBlock], total[kBlock];
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t n = std::min(kBlock, count - at);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int s = groups[g].begin; s < groups[g].end; ++s) {
        const Stored* from = static_cast<const Stored*>(sources[s].data) + at;
        if (s == groups[g].begin)
          for (int64_t i = 0; i < n; ++i) host[i] = Type::get(from[i]);
        else
          for (int64_t i = 0; i < n; ++i) host[i] = combine<op, T>(host[i], Type::get(from[i]));
      }
      if (groups[g].round)
        for (int64_t i = 0; i < n; ++i) host[i] = Type::get(Type::put(host[i]));
      if (g == 0)
        std::copy(host, host + n, total);
      else
        for (int64_t i = 0; i < n; ++i) total[i] = combine<op, T>(total[i], host[i]);
    }
    if constexpr (op == ReduceOp::kAverage && std::is_integral_v<T>)
      for (int64_t i = 0; i < n; ++i)
        total[i] =
            std::is_signed_v<T>
                ? static_cast<T>(static_cast<int64_t>(total[i]) / divisor)
                : static_cast<T>(static_cast<uint64_t>(total[i]) / static_cast<uint64_t>(divisor));
    Stored* out = static_cast<Stored*>(to) + at;
    for (int64_t i = 0; i < n; ++i) out[i] = Type::put(total[i]);
  }
}

template <typename Type>
void fold_by_op(ReduceOp op, std::span<const ReduceSource> sources,
                std::span<const HostGroup> groups, int64_t divisor, int64_t count, void* to) {
  switch (op) {
    case ReduceOp::kSum:
      return fold<Type, ReduceOp::kSum>(sources, groups, divisor, count, to);
    case ReduceOp::kAverage:
      return fold<Type, ReduceOp::kAverage>(sources, groups, divisor, count, to);
    case ReduceOp::kProduct:
      return fold<Type, ReduceOp::kProduct>(sources, groups, divisor, count, to);
    case ReduceOp::kMin:
      return fold<Type, ReduceOp::kMin>(sources, groups, divisor, count, to);
    case ReduceOp::kMax:
      return fold<Type, ReduceOp::kMax>(sources, groups, divisor, count, to);
    case ReduceOp::kAnd:
      return fold<Type, ReduceOp::kAnd>(sources, groups, divisor, count, to);
    case ReduceOp::kOr:
      return fold<Type, ReduceOp::kOr>(sources, groups, divisor, count, to);
    case ReduceOp::kXor:
      return fold<Type, ReduceOp::kXor>(sources, groups, divisor, count, to);
  }
}

bool is_narrow(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Sum and product of truth values are "or" and "and".
ReduceOp for_bool(ReduceOp op) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMax) return ReduceOp::kOr;
  if (op == ReduceOp::kProduct || op == ReduceOp::kMin) return ReduceOp::kAnd;
  return op;
}

// Groups sources by host, and says how each host's sum is divided and rounded.
std::vector<HostGroup> group_by_host(const Reduction& reduction,
                                     std::span<const ReduceSource> sources) {
  const bool narrow = is_narrow(reduction.dtype);
  const bool divide = narrow && reduction.op == ReduceOp::kAverage;
  std::vector<HostGroup> groups;
  for (int s = 0; s < static_cast<int>(sources.size()); ++s) {
    if (groups.empty() || sources[s].begins_host) groups.push_back({.begin = s});
    HostGroup& group = groups.back();
    group.end = s + 1;
    group.round = narrow && group.end - group.begin > 1;
    group.divisor = divide && !sources[s].host_sum ? reduction.ranks : 1;
  }
  return groups;
}

}  // namespace

std::string_view reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAnd:
      return "and";
    case ReduceOp::kOr:
      return "or";
    case ReduceOp::kXor:
      return "xor";
  }
  return "?";
}

ReduceOp parse_reduce_op(std::string_view name) {
  std::string names;
  for (const ReduceOp op : kOps) {
    if (reduce_op_name(op) == name) return op;
    names += names.empty() ? "" : ", ";
    names += reduce_op_name(op);
  }
  throw_invalid("reduction: expected one of {}, got '{}'", names, name);
}

std::string reduce_unfit(DType dtype, ReduceOp op) {
  const bool bitwise = op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
  if (dtype_bytes(dtype) == 0) return "the element type is undefined";
  if (dtype > DType::kBool)
    return fmt::format("{} cannot be reduced; convert it to a wider type", dtype_name(dtype));
  if (is_float(dtype) && bitwise)
    return fmt::format("{} is defined for integers and bool, not for {}", reduce_op_name(op),
                       dtype_name(dtype));
  if (dtype == DType::kBool && op == ReduceOp::kAverage)
    return "average is not defined for bool; use max or min";
  return "";
}

bool is_exact(DType dtype, ReduceOp op) {
  if (!is_float(dtype)) return true;
  return op == ReduceOp::kMin || op == ReduceOp::kMax;
}

void reduce(Isa isa, const Reduction& reduction, std::span<const ReduceSource> sources,
            int64_t count, void* to) {
  STRETTO_CHECK(!sources.empty(), "a reduction of no sources");
  const std::string unfit = reduce_unfit(reduction.dtype, reduction.op);
  if (!unfit.empty()) throw_invalid("reduce: {}", unfit);
  const std::vector<HostGroup> groups = group_by_host(reduction, sources);
  const bool divide = reduction.op == ReduceOp::kAverage && reduction.last;

  if (is_float(reduction.dtype) &&
      (reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kAverage)) {
    std::vector<const void*> data;
    for (const ReduceSource& source : sources) data.push_back(source.data);
    const double divisor = divide && !is_narrow(reduction.dtype) ? reduction.ranks : 1;
    return sum_sources(isa, reduction.dtype, data, groups, divisor, count, to);
  }

  const int64_t divisor = divide ? reduction.ranks : 1;
  const auto run = [&]<typename Type>() {
    fold_by_op<Type>(reduction.op, sources, groups, divisor, count, to);
  };
  switch (reduction.dtype) {
    case DType::kFloat32:
      return run.operator()<Native<float, float>>();
    case DType::kFloat64:
      return run.operator()<Native<double, double>>();
    case DType::kFloat16:
      return run.operator()<HalfBits>();
    case DType::kBFloat16:
      return run.operator()<BFloat16Bits>();
    case DType::kInt8:
      return run.operator()<Native<int8_t, int8_t>>();
    case DType::kInt16:
      return run.operator()<Native<int16_t, int16_t>>();
    case DType::kInt32:
      return run.operator()<Native<int32_t, int32_t>>();
    case DType::kInt64:
      return run.operator()<Native<int64_t, int64_t>>();
    case DType::kUInt8:
      return run.operator()<Native<uint8_t, uint8_t>>();
    case DType::kUInt16:
      return run.operator()<Native<uint16_t, uint16_t>>();
    case DType::kUInt32:
      return run.operator()<Native<uint32_t, uint32_t>>();
    case DType::kUInt64:
      return run.operator()<Native<uint64_t, uint64_t>>();
    case DType::kBool:
      return fold_by_op<Bool>(for_bool(reduction.op), sources, groups, 1, count, to);
    default:
      break;  // refused by reduce_unfit()
  }
}

}  // namespace stretto::comm
