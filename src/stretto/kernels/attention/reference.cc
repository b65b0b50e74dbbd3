#include <cmath>
#include <limits>

#include "stretto/kernels/attention/candidates.h"

namespace stretto::kernels::attention {
namespace {

Fit fits(const AttentionProblem&) { return Fit::yes(0.001); }

// Scores of one query in double, rounded to nothing in between.
size_t scratch_bytes(const AttentionProblem& p) {
  return static_cast<size_t>(p.target.threads * p.sk) * sizeof(double);
}

void run(const AttentionProblem& p, const Args& args, const Worker& worker) {
  double* scores = reinterpret_cast<double*>(args.scratch) + worker.thread * p.sk;
  int64_t sq = p.sq, sk = p.sk, first = 0;
  const auto at = [&](const AttentionOperand& a, int64_t b, int64_t h, int64_t row, int64_t i) {
    if (p.rows) row += first, b = 0;
    return a.offset + b * a.strides[0] + h * a.strides[1] + row * a.strides[2] + i * a.strides[3];
  };
  const auto value = [&](const AttentionOperand& a, int64_t b, int64_t h, int64_t row,
                         int64_t i) -> double {
    return static_cast<const float*>(args.inputs[a.input])[at(a, b, h, row, i)];
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Range rows = split(p.batch * p.heads * p.sq, worker);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t b = row / p.sq / p.heads, h = row / p.sq % p.heads, i = row % p.sq;
    if (p.rows) {
      const SampleRows sample = sample_rows(p, args, b);
      first = sample.begin;
      sq = sk = sample.count;
      if (i >= sq) continue;
    }
    const int64_t kv = h / (p.heads / p.kv_heads);
    double top = -kInfinity, sum = 0;
    for (int64_t j = 0; j < sk; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < p.dim; ++c) dot += value(p.q, b, h, i, c) * value(p.k, b, kv, j, c);
      scores[j] = dot * p.scale + (p.has_mask ? value(p.mask, b, h, i, j) : 0);
      top = std::fmax(top, scores[j]);
    }
    for (int64_t j = 0; j < sk; ++j) {
      scores[j] = std::exp(scores[j] - top);
      sum += scores[j];
    }
    for (int64_t c = 0; c < p.dim_v; ++c) {
      double total = 0;
      for (int64_t j = 0; j < sk; ++j) {
        total += scores[j] * value(p.v, b, kv, j, c);
      }
      const double y = p.masked_zero && !(sum > 0) ? 0 : total / sum;
      static_cast<float*>(args.outputs[0])[at(p.out, b, h, i, c)] = static_cast<float>(y);
    }
  }
  if (p.rows && worker.index == 0 && worker.unit == 0) clear_behind(p, args);
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::attention
