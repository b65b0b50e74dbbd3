#include <algorithm>
#include <cmath>

#include "stretto/kernels/layer_norm/candidates.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::layer_norm {
namespace {

Fit fits(const LayerNormProblem&) { return Fit::yes(0.001); }

void run(const LayerNormProblem& p, const Args& args, const Worker& worker) {
  const float* scale = reinterpret_cast<const float*>(args.packed);
  const float* bias = scale + p.n;
  const Range rows = split(p.m, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = static_cast<const float*>(args.inputs[0]) + r * p.n;
    const float* residual =
        p.residual ? static_cast<const float*>(args.inputs[1]) + r * p.n : nullptr;
    const auto value = [&](int64_t i) -> double {
      return residual ? static_cast<double>(x[i]) + residual[i] : x[i];
    };
    double mean = 0, square = 0;
    for (int64_t i = 0; i < p.n; ++i) mean += value(i) / p.n;
    if (p.rms) mean = 0;
    for (int64_t i = 0; i < p.n; ++i) square += (value(i) - mean) * (value(i) - mean) / p.n;
    const double inverse = 1 / std::sqrt(square + p.epsilon);
    float* y = static_cast<float*>(args.outputs[0]) + r * p.n;
    for (int64_t i = 0; i < p.n; ++i) {
      y[i] = static_cast<float>((value(i) - mean) * inverse * scale[i] + bias[i]);
      if (p.sum_output) {
        static_cast<float*>(args.outputs[1])[r * p.n + i] = static_cast<float>(value(i));
      }
    }
  }
}

}  // namespace

std::string packing(const LayerNormProblem&) { return packing_text("scale_bias", 1, 1); }

size_t packed_bytes(const LayerNormProblem& p) {
  return static_cast<size_t>(2 * p.n) * sizeof(float);
}

void pack(const LayerNormProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  float* scale = reinterpret_cast<float*>(packed);
  float* bias = scale + p.n;
  std::fill_n(scale, p.n, 1.0f);
  std::fill_n(bias, p.n, 0.0f);
  size_t next = 0;
  if (p.scale) std::ranges::copy(constants[next++].values<float>(), scale);
  if (p.bias) std::ranges::copy(constants[next].values<float>(), bias);
}

const Row kReference{.name = "reference",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .packing = packing,
                     .run = run};

}  // namespace stretto::kernels::layer_norm
