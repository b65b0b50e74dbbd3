#include <algorithm>
#include <cmath>

#include "stretto/kernels/access.h"
#include "stretto/kernels/elementwise/candidates.h"
#include "stretto/kernels/elementwise/integers.h"

namespace stretto::kernels::elementwise {
namespace {

double apply(ElementOp op, double a, double b, double c, double alpha, double beta) {
  return element_row(op).apply(a, b, c, alpha, beta);
}

template <typename T>
T apply(ElementOp op, T a, T b, T c, double alpha, double beta) {
  if (has_integers(op)) return apply_integer<T>(op, a, b, c, static_cast<T>(alpha));
  return static_cast<T>(static_cast<int64_t>(apply(
      op, static_cast<double>(a), static_cast<double>(b), static_cast<double>(c), alpha, beta)));
}

// Calls f with a value of the type that stores `dtype`.
template <typename F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kUInt16:
      return f(uint16_t{});
    case DType::kUInt32:
      return f(uint32_t{});
    case DType::kUInt64:
      return f(uint64_t{});
    case DType::kFloat64:
      return f(double{});
    default:
      return f(float{});
  }
}

template <typename T>
T load(DType dtype, const void* data, int64_t at) {
  if (dtype == DType::kBool) return static_cast<T>(static_cast<const uint8_t*>(data)[at] != 0);
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) {
    const uint16_t bits = static_cast<const uint16_t*>(data)[at];
    return static_cast<T>(dtype == DType::kFloat16 ? half_to_float(bits) : bfloat16_to_float(bits));
  }
  T value{};
  with_type(dtype, [&]<typename From>(From) {
    value = static_cast<T>(static_cast<const From*>(data)[at]);
  });
  return value;
}

template <typename T>
void store(DType dtype, void* data, int64_t at, T value) {
  if (dtype == DType::kBool) {
    static_cast<uint8_t*>(data)[at] = value != 0;
    return;
  }
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) {
    const auto single = static_cast<float>(value);
    static_cast<uint16_t*>(data)[at] =
        dtype == DType::kFloat16 ? float_to_half(single) : float_to_bfloat16(single);
    return;
  }
  with_type(dtype, [&]<typename To>(To) {
    if constexpr (std::is_integral_v<To> && std::is_floating_point_v<T>) {
      static_cast<To*>(data)[at] = static_cast<To>(static_cast<int64_t>(value));
    } else {
      static_cast<To*>(data)[at] = static_cast<To>(value);
    }
  });
}

template <typename T>
void run_as(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  const Range range = split(p.elements(), worker);
  const int block = p.target.block();
  for (int64_t e = range.begin; e < range.end; ++e) {
    int64_t index[ElementwiseProblem::kMaxRank] = {};
    for (int64_t k = p.rank - 1, rest = e; k >= 0; --k) {
      index[k] = rest % p.dims[k];
      rest /= p.dims[k];
    }
    // Where the element lies in a tensor that is broadcast along the dimensions in `bits`.
    const auto at = [&](unsigned bits) -> int64_t {
      int64_t shape[ElementwiseProblem::kMaxRank], i[ElementwiseProblem::kMaxRank], flat = 0;
      for (int k = 0; k < p.rank; ++k) {
        shape[k] = bits >> k & 1 ? 1 : p.dims[k];
        i[k] = bits >> k & 1 ? 0 : index[k];
        flat = flat * shape[k] + i[k];
      }
      if (p.layout == Layout::kPlain || (bits >> 1 & 1)) return flat;
      return Access({shape[0], shape[1], shape[2], shape[3]}, p.layout, block)
          .at(i[0], i[1], i[2], i[3]);
    };
    T values[ElementwiseProblem::kMaxInputs + ElementwiseProblem::kMaxInstructions] = {};
    for (int i = 0; i < p.inputs; ++i) {
      values[i] = load<T>(p.input_dtype[i], args.inputs[i], at(p.input_broadcast[i]));
    }
    T last = p.inputs > 0 ? values[0] : T{};
    for (int i = 0; i < p.instructions; ++i) {
      const Instruction& s = p.program[i];
      last = values[p.inputs + i] =
          apply(s.op, values[s.a], values[s.b], values[s.c], s.alpha, s.beta);
    }
    store(p.output, args.outputs[0], at(0), last);
  }
}

Fit fits(const ElementwiseProblem&) { return Fit::yes(0.001); }

void run(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  if (!is_integer(p.compute)) return run_as<double>(p, args, worker);
  with_type(p.compute, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>) run_as<T>(p, args, worker);
  });
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::elementwise
