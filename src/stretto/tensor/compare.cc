#include "stretto/tensor/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/base/error.h"

namespace stretto {

void Comparison::add(int64_t index, double got, double expected) {
  ++count_;
  if (std::isnan(expected)) ++nan_;
  if (std::isfinite(expected)) largest_ = std::max(largest_, std::fabs(expected));
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return;
  double difference = std::fabs(got - expected);
  if (!std::isfinite(difference)) difference = std::numeric_limits<double>::infinity();
  if (difference <= worst_.max_abs) return;
  worst_.max_abs = difference;
  worst_.worst_index = index;
  worst_.got = got;
  worst_.expected = expected;
}

Difference Comparison::result() const {
  Difference result = worst_;
  result.only_nan = count_ > 0 && nan_ == count_;
  if (result.only_nan) result.max_abs = std::numeric_limits<double>::infinity();
  if (result.max_abs > 0) result.relative_to_max = result.max_abs / std::max(largest_, 1e-30);
  return result;
}

Difference compare(const Tensor& got, const Tensor& expected) {
  if (got.shape() != expected.shape()) {
    throw_invalid("compare: expected shape {}, got {}", shape_text(expected.shape()),
                  shape_text(got.shape()));
  }
  const std::vector<double> g = got.as_doubles(), e = expected.as_doubles();
  Comparison comparison;
  for (size_t i = 0; i < e.size(); ++i) comparison.add(static_cast<int64_t>(i), g[i], e[i]);
  Difference result = comparison.result();
  if (!is_float(expected.dtype()) && result.max_abs > 0) {
    result.max_abs = result.relative_to_max = 1;
  }
  return result;
}

}  // namespace stretto
