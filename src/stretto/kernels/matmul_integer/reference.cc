#include <cstring>

#include "stretto/kernels/matmul_integer/candidates.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::matmul_integer {
namespace {

Fit fits(const MatmulIntegerProblem&) { return Fit::yes(0.001); }

std::string packing(const MatmulIntegerProblem&) {
  return packing_text("matmul_integer_plain", 1, 1);
}

size_t packed_bytes(const MatmulIntegerProblem& p) {
  return static_cast<size_t>(p.n) * sizeof(float) + static_cast<size_t>(p.n * p.k);
}

void pack(const MatmulIntegerProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const size_t bytes = static_cast<size_t>(p.n) * sizeof(float);
  std::memset(packed, 0, bytes);
  if (p.bias) std::memcpy(packed, constants[1].values<float>().data(), bytes);
  std::memcpy(packed + bytes, constants[0].values<int8_t>().data(), static_cast<size_t>(p.n * p.k));
}

void run(const MatmulIntegerProblem& p, const Args& args, const Worker& worker) {
  const auto* x = static_cast<const uint8_t*>(args.inputs[0]);
  const auto* scale = static_cast<const float*>(args.inputs[1]);
  auto* y = static_cast<float*>(args.outputs[0]);
  const auto* bias = reinterpret_cast<const float*>(args.packed);
  const auto* weight = reinterpret_cast<const int8_t*>(bias + p.n);
  const int32_t zero = zero_point(p, args);
  const Range range = split(p.m * p.n, worker);
  for (int64_t at = range.begin; at < range.end; ++at) {
    const int64_t m = at / p.n, n = at % p.n;
    int64_t sum = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      const int32_t element = p.is_signed ? static_cast<int8_t>(x[m * p.k + k]) : x[m * p.k + k];
      sum += (element - zero) * weight[k * p.n + n];
    }
    const float factor = scale[p.scale_per_column ? n : 0];
    y[at] = static_cast<float>(sum) * factor + bias[n];
  }
}

}  // namespace

const Row kReference{.name = "reference",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .packing = packing,
                     .run = run};

}  // namespace stretto::kernels::matmul_integer
