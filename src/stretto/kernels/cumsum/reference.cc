#include "stretto/kernels/cumsum/candidates.h"

namespace stretto::kernels::cumsum {
namespace {

Fit fits(const CumSumProblem&) { return Fit::yes(0.01); }

template <typename T, typename Sum>
void run_as(const CumSumProblem& p, const Args& args, const Worker& worker) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  const Range range = split(p.outer * p.inner, worker);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const int64_t first = row / p.inner * p.axis * p.inner + row % p.inner;
    Sum sum = p.product ? 1 : 0;
    for (int64_t i = 0; i < p.axis; ++i) {
      const int64_t at = first + (p.reverse ? p.axis - 1 - i : i) * p.inner;
      const Sum v = static_cast<Sum>(x[at]);
      const Sum next = p.product ? sum * v : sum + v;
      y[at] = static_cast<T>(p.exclusive ? sum : next);
      sum = next;
    }
  }
}

void run(const CumSumProblem& p, const Args& args, const Worker& worker) {
  switch (p.dtype) {
    case DType::kFloat32:
      return run_as<float, double>(p, args, worker);
    case DType::kFloat64:
      return run_as<double, double>(p, args, worker);
    case DType::kInt32:
      return run_as<int32_t, uint32_t>(p, args, worker);
    default:
      return run_as<int64_t, uint64_t>(p, args, worker);
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::cumsum
