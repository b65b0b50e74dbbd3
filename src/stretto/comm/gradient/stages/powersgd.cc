#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/comm/gradient/stages/stages.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {
namespace {

// Eight partial sums, which the compiler keeps in vectors, added in a fixed order.
float dot(const float* a, const float* b, int64_t count) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float s : sums) sum += s;
  return sum;
}

bool all_finite(std::span<const float> values) {
  return scan_non_finite(usable_isa(), DType::kFloat32, values.data(),
                         static_cast<int64_t>(values.size()))
             .count == 0;
}

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

PowerSgd::PowerSgd(PowerSgdOptions options, int64_t rows, int64_t columns)
    : rank_(static_cast<int>(std::min<int64_t>({options.rank, rows, columns}))),
      rows_(rows),
      columns_(columns) {
  if (options.rank < 1 || rows < 1 || columns < 1)
    throw_invalid("powersgd: expected a positive rank and shape, got rank {} of {} x {}",
                  options.rank, rows, columns);
  p_.resize(static_cast<size_t>(rank_ * rows));
  q_.resize(static_cast<size_t>(rank_ * columns));
  fresh_q_.resize(q_.size());
  for (size_t i = 0; i < q_.size(); ++i)
    q_[i] = static_cast<float>(static_cast<double>(mix(options.seed + i) >> 11) * 0x1p-52 - 1);
}

bool PowerSgd::worthwhile(int64_t rows, int64_t columns, int rank) {
  return 2 * rank * (rows + columns) < rows * columns;
}

WantedCollective PowerSgd::begin(const float* gradient, float* residual) {
  gradient_ = gradient;
  residual_ = residual;
  finite_ = all_finite({gradient, static_cast<size_t>(rows_ * columns_)});
  if (finite_) {
    for (int64_t i = 0; i < rows_ * columns_; ++i) residual[i] += gradient[i];
    if (!all_finite({residual, static_cast<size_t>(rows_ * columns_)})) {
      finite_ = false;  // the sum overflowed: the residual is dropped
      std::fill_n(residual, rows_ * columns_, 0.0f);
    }
  }
  if (finite_) {
    for (int64_t row = 0; row < rows_; ++row)
      for (int c = 0; c < rank_; ++c)
        p_[c * rows_ + row] = dot(residual + row * columns_, q_.data() + c * columns_, columns_);
  } else {
    std::fill(p_.begin(), p_.end(), std::numeric_limits<float>::quiet_NaN());
  }
  return {.count = static_cast<int64_t>(p_.size()), .input = p_.data(), .output = p_.data()};
}

// Gram-Schmidt, modified; a column that depends on those before it becomes zero.
void PowerSgd::orthogonalise() {
  for (int c = 0; c < rank_; ++c) {
    float* column = p_.data() + c * rows_;
    double before = 0, norm = 0;
    for (int64_t i = 0; i < rows_; ++i) before += static_cast<double>(column[i]) * column[i];
    for (int other = 0; other < c; ++other) {
      const float* done = p_.data() + other * rows_;
      double along = 0;
      for (int64_t i = 0; i < rows_; ++i) along += static_cast<double>(column[i]) * done[i];
      for (int64_t i = 0; i < rows_; ++i)
        column[i] -= static_cast<float>(along * static_cast<double>(done[i]));
    }
    for (int64_t i = 0; i < rows_; ++i) norm += static_cast<double>(column[i]) * column[i];
    const bool dependent = norm <= 1e-12 * before;
    const double inverse = dependent ? 0 : 1 / std::sqrt(norm);
    for (int64_t i = 0; i < rows_; ++i)
      column[i] = static_cast<float>(inverse * static_cast<double>(column[i]));
  }
}

WantedCollective PowerSgd::next() {
  orthogonalise();
  std::fill(fresh_q_.begin(), fresh_q_.end(),
            finite_ ? 0.0f : std::numeric_limits<float>::quiet_NaN());
  for (int64_t row = 0; finite_ && row < rows_; ++row)
    for (int c = 0; c < rank_; ++c) {
      const float weight = p_[c * rows_ + row];
      const float* from = residual_ + row * columns_;
      float* to = fresh_q_.data() + c * columns_;
      for (int64_t j = 0; j < columns_; ++j) to[j] += weight * from[j];
    }
  return {.count = static_cast<int64_t>(fresh_q_.size()),
          .input = fresh_q_.data(),
          .output = fresh_q_.data()};
}

void PowerSgd::finish(float* gradient) {
  if (!all_finite(p_) || !all_finite(fresh_q_)) {
    // A rank's gradient was not finite. Nothing was sent, so the residual keeps this rank's
    // gradient.
    for (int64_t i = 0; finite_ && i < rows_ * columns_; ++i) residual_[i] -= gradient_[i];
    std::fill_n(gradient, rows_ * columns_, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  q_ = fresh_q_;
  for (int64_t row = 0; row < rows_; ++row) {
    float* to = gradient + row * columns_;
    std::fill_n(to, columns_, 0.0f);
    for (int c = 0; c < rank_; ++c) {
      const float weight = p_[c * rows_ + row];
      const float* from = q_.data() + c * columns_;
      for (int64_t j = 0; j < columns_; ++j) to[j] += weight * from[j];
    }
    for (int64_t j = 0; j < columns_; ++j) residual_[row * columns_ + j] -= to[j];
  }
}

}  // namespace stretto::comm
