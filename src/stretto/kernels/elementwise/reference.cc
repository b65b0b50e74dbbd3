#include <algorithm>
#include <cmath>

#include "stretto/kernels/access.h"
#include "stretto/kernels/elementwise/candidates.h"

namespace stretto::kernels::elementwise {
namespace {

double apply(ElementOp op, double a, double b, double c, double alpha, double beta) {
  return element_row(op).apply(a, b, c, alpha, beta);
}

// Where int64 differs from the formula in double: beyond 53 bits, and in division, which truncates
// (by 0 it gives 0).
int64_t apply(ElementOp op, int64_t a, int64_t b, int64_t c, double alpha, double beta) {
  const auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  const uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case ElementOp::kCopy:
      return a;
    case ElementOp::kAdd:
      return wrap(ua + ub);
    case ElementOp::kSub:
      return wrap(ua - ub);
    case ElementOp::kMul:
      return wrap(ua * ub);
    case ElementOp::kDiv:
      return b == 0 ? 0 : b == -1 ? wrap(0 - ua) : a / b;
    case ElementOp::kMin:
      return std::min(a, b);
    case ElementOp::kMax:
      return std::max(a, b);
    case ElementOp::kNeg:
      return wrap(0 - ua);
    case ElementOp::kAbs:
      return a < 0 ? wrap(0 - ua) : a;
    case ElementOp::kWhere:
      return a != 0 ? b : c;
    case ElementOp::kEqual:
      return a == b;
    case ElementOp::kLess:
      return a < b;
    case ElementOp::kGreater:
      return a > b;
    case ElementOp::kLessOrEqual:
      return a <= b;
    case ElementOp::kGreaterOrEqual:
      return a >= b;
    default:
      return static_cast<int64_t>(apply(op, static_cast<double>(a), static_cast<double>(b),
                                        static_cast<double>(c), alpha, beta));
  }
}

template <typename T>
T load(DType dtype, const void* data, int64_t at) {
  switch (dtype) {
    case DType::kInt64:
      return static_cast<T>(static_cast<const int64_t*>(data)[at]);
    case DType::kInt32:
      return static_cast<T>(static_cast<const int32_t*>(data)[at]);
    case DType::kBool:
      return static_cast<T>(static_cast<const uint8_t*>(data)[at] != 0);
    default:
      return static_cast<T>(static_cast<const float*>(data)[at]);
  }
}

template <typename T>
void store(DType dtype, void* data, int64_t at, T value) {
  switch (dtype) {
    case DType::kInt64:
      static_cast<int64_t*>(data)[at] = static_cast<int64_t>(value);
      return;
    case DType::kInt32:
      static_cast<int32_t*>(data)[at] = static_cast<int32_t>(value);
      return;
    case DType::kBool:
      static_cast<uint8_t*>(data)[at] = value != 0;
      return;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
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
  if (p.compute == DType::kInt64) {
    run_as<int64_t>(p, args, worker);
  } else {
    run_as<double>(p, args, worker);
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::elementwise
