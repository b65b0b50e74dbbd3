#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "stretto/kernels/reduce/candidates.h"

namespace stretto::kernels::reduce {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double identity(Reduction kind) {
  switch (kind) {
    case Reduction::kMax:
      return -kInfinity;
    case Reduction::kMin:
      return kInfinity;
    case Reduction::kProd:
      return 1;
    default:
      return 0;
  }
}

double join(Reduction kind, double sum, double v) {
  switch (kind) {
    case Reduction::kSum:
    case Reduction::kMean:
      return sum + v;
    case Reduction::kMax:
      return std::isnan(sum) || v <= sum ? sum : v;
    case Reduction::kMin:
      return std::isnan(sum) || v >= sum ? sum : v;
    case Reduction::kProd:
      return sum * v;
    case Reduction::kL1:
      return sum + std::fabs(v);
    case Reduction::kL2:
    case Reduction::kSumSquare:
      return sum + v * v;
  }
  return sum;
}

// Wraps, as the vectors do.
template <typename T>
T join_integers(Reduction kind, T sum, T v) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (kind) {
    case Reduction::kMax:
      return std::max(sum, v);
    case Reduction::kMin:
      return std::min(sum, v);
    case Reduction::kProd:
      return static_cast<T>(static_cast<Unsigned>(sum) * static_cast<Unsigned>(v));
    default:
      return static_cast<T>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(v));
  }
}

template <typename T>
T fold(const ReduceProblem& p, const T* x, int64_t folded, const auto& at) {
  if constexpr (std::is_integral_v<T>) {
    T sum = p.kind == Reduction::kMax   ? std::numeric_limits<T>::min()
            : p.kind == Reduction::kMin ? std::numeric_limits<T>::max()
                                        : static_cast<T>(p.kind == Reduction::kProd);
    for (int64_t r = 0; r < folded; ++r) sum = join_integers(p.kind, sum, x[at(r)]);
    return sum;
  } else {
    double sum = identity(p.kind);
    for (int64_t r = 0; r < folded; ++r) sum = join(p.kind, sum, x[at(r)]);
    if (p.kind == Reduction::kMean) sum /= static_cast<double>(folded);
    if (p.kind == Reduction::kL2) sum = std::sqrt(sum);
    return static_cast<T>(sum);
  }
}

Fit fits(const ReduceProblem&) { return Fit::yes(0.001); }

template <typename T>
void run_type(const ReduceProblem& p, const Args& args, const Worker& worker) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  int64_t kept = 1, folded = 1;
  for (int k = 0; k < p.rank; ++k) (p.reduced >> k & 1 ? folded : kept) *= p.dims[k];
  // Offset in x of the index-th combination of the reduced, or of the kept, dimensions.
  const auto offset = [&](int64_t index, bool reduced) {
    int64_t at = 0, stride = 1;
    for (int k = p.rank - 1; k >= 0; stride *= p.dims[k--]) {
      if ((p.reduced >> k & 1) != reduced) continue;
      at += index % p.dims[k] * stride;
      index /= p.dims[k];
    }
    return at;
  };
  const Range range = split(kept, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t base = offset(i, false);
    static_cast<T*>(args.outputs[0])[i] =
        fold<T>(p, x, folded, [&](int64_t r) { return base + offset(r, true); });
  }
}

void run(const ReduceProblem& p, const Args& args, const Worker& worker) {
  if (p.dtype == DType::kInt32) return run_type<int32_t>(p, args, worker);
  if (p.dtype == DType::kInt64) return run_type<int64_t>(p, args, worker);
  run_type<float>(p, args, worker);
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::reduce
