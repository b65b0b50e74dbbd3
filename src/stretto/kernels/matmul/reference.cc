#include "stretto/kernels/matmul/candidates.h"

namespace stretto::kernels::matmul {
namespace {

Fit fits(const MatmulProblem&) { return Fit::yes(0.001); }

void run(const MatmulProblem& p, const Args& args, const Worker& worker) {
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* z = static_cast<const float*>(args.inputs[1]);
  float* y = static_cast<float*>(args.outputs[0]);
  const int64_t step_n = p.transposed ? p.k : 1, step_k = p.transposed ? 1 : p.n;
  const Range range = split(p.batches() * p.m, worker);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const int64_t b = row / p.m, m = row % p.m;
    const float* from = x + (matmul_operand(p, p.broadcast_x, b) * p.m + m) * p.k;
    const float* with = z + matmul_operand(p, p.broadcast_z, b) * p.k * p.n;
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        sum += static_cast<double>(from[k]) * with[n * step_n + k * step_k];
      }
      y[row * p.n + n] = static_cast<float>(p.alpha * sum);
    }
  }
}

}  // namespace

const Row kReference{.name = "reference",
                     .fits = fits,
                     .packed_bytes = nullptr,
                     .pack = nullptr,
                     .scratch_bytes = nullptr,
                     .run = run};

}  // namespace stretto::kernels::matmul
