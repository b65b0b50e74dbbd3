#include <algorithm>

#include "stretto/kernels/gemm/candidates.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::gemm {
namespace {

Fit fits(const GemmProblem&) { return Fit::yes(0.001); }

std::string packing(const GemmProblem&) { return packing_text("gemm_plain", 1, 1); }

size_t packed_bytes(const GemmProblem& p) {
  return static_cast<size_t>(p.n * p.k + p.n) * sizeof(float);
}

void pack(const GemmProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  float* out = reinterpret_cast<float*>(packed);
  const auto weight = constants[0].values<float>();
  out = std::copy(weight.begin(), weight.end(), out);
  for (int64_t n = 0; n < p.n; ++n) out[n] = p.epilogue.bias ? constants[1].values<float>()[n] : 0;
}

void run(const GemmProblem& p, const Args& args, const Worker& worker) {
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* y = static_cast<float*>(args.outputs[0]);
  const float* weight = reinterpret_cast<const float*>(args.packed);
  const float* bias = weight + p.n * p.k;
  const Epilogue& e = p.epilogue;
  const int64_t step_n = p.transposed ? p.k : 1, step_k = p.transposed ? 1 : p.n;
  const Range range = split(p.m * p.n, worker);
  for (int64_t at = range.begin; at < range.end; ++at) {
    const int64_t m = at / p.n, n = at % p.n;
    double sum = bias[n];
    for (int64_t k = 0; k < p.k; ++k) {
      sum += static_cast<double>(x[m * p.k + k]) * weight[n * step_n + k * step_k];
    }
    const double extra = residual ? residual[at] : 0;
    if (!e.residual_after_activation) sum += extra;
    sum = apply_activation(e.activation, e.alpha, e.beta, sum);
    if (e.residual_after_activation) sum += extra;
    y[at] = static_cast<float>(sum);
  }
}

}  // namespace

const Row kReference{.name = "reference",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .packing = packing,
                     .scratch_bytes = nullptr,
                     .run = run};

}  // namespace stretto::kernels::gemm
