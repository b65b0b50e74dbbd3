#include <algorithm>
#include <cmath>

#include "stretto/kernels/group_norm/candidates.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::group_norm {
namespace {

Fit fits(const GroupNormProblem&) { return Fit::yes(0.001); }

void run(const GroupNormProblem& p, const Args& args, const Worker& worker) {
  const float* scale = reinterpret_cast<const float*>(args.packed);
  const float* bias = scale + p.c;
  const int64_t channels = p.c / p.groups, count = channels * p.hw;
  const Range groups = split(p.n * p.groups, worker);
  for (int64_t g = groups.begin; g < groups.end; ++g) {
    const float* x = static_cast<const float*>(args.inputs[0]) + g * count;
    float* y = static_cast<float*>(args.outputs[0]) + g * count;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < count; ++i) mean += static_cast<double>(x[i]) / count;
    for (int64_t i = 0; i < count; ++i) square += (x[i] - mean) * (x[i] - mean) / count;
    const double inverse = 1 / std::sqrt(square + p.epsilon);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = g % p.groups * channels + i / p.hw;
      y[i] = static_cast<float>((x[i] - mean) * inverse * scale[c] + bias[c]);
    }
  }
}

}  // namespace

std::string packing(const GroupNormProblem&) { return packing_text("scale_bias", 1, 1); }

size_t packed_bytes(const GroupNormProblem& p) {
  return static_cast<size_t>(2 * p.c) * sizeof(float);
}

void pack(const GroupNormProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  float* scale = reinterpret_cast<float*>(packed);
  float* bias = scale + p.c;
  std::fill_n(scale, p.c, 1.0f);
  std::fill_n(bias, p.c, 0.0f);
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

}  // namespace stretto::kernels::group_norm
