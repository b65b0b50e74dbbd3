#include <vector>

#include "stretto/kernels/access.h"
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

Fit fits(const Conv2dProblem&) { return Fit::yes(0.001); }

std::string packing(const Conv2dProblem&) { return packing_text("conv2d_plain", 1, 1); }

size_t packed_bytes(const Conv2dProblem& p) {
  const int64_t weights = p.k * (p.c / p.groups) * p.kernel_h * p.kernel_w;
  return static_cast<size_t>(weights + p.k) * sizeof(float);
}

void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  float* out = reinterpret_cast<float*>(packed);
  const auto weight = constants[0].values<float>();
  out = std::copy(weight.begin(), weight.end(), out);
  for (int64_t k = 0; k < p.k; ++k) out[k] = p.epilogue.bias ? constants[1].values<float>()[k] : 0;
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const int64_t oh = p.out_h(), ow = p.out_w(), cg = p.c / p.groups, kg = p.k / p.groups;
  const int block = p.target.block();
  const Access x({p.n, p.c, p.h, p.w}, p.x_layout, block);
  const Access y({p.n, p.k, oh, ow}, p.y_layout, block);
  const float* in = static_cast<const float*>(args.inputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* out = static_cast<float*>(args.outputs[0]);
  const float* weight = reinterpret_cast<const float*>(args.packed);
  const float* bias = weight + p.k * cg * p.kernel_h * p.kernel_w;
  const Epilogue& e = p.epilogue;

  const Range rows = split(p.n * p.k * oh, worker);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t n = row / (p.k * oh), k = row / oh % p.k, oy = row % oh;
    const int64_t c0 = k / kg * cg;
    for (int64_t ox = 0; ox < ow; ++ox) {
      double sum = bias[k];
      for (int64_t c = 0; c < cg; ++c) {
        for (int r = 0; r < p.kernel_h; ++r) {
          const int64_t iy = oy * p.stride_h + r * p.dilation_h - p.pad_top;
          if (iy < 0 || iy >= p.h) continue;
          for (int s = 0; s < p.kernel_w; ++s) {
            const int64_t ix = ox * p.stride_w + s * p.dilation_w - p.pad_left;
            if (ix < 0 || ix >= p.w) continue;
            const float w = weight[((k * cg + c) * p.kernel_h + r) * p.kernel_w + s];
            sum += static_cast<double>(in[x.at(n, c0 + c, iy, ix)]) * w;
          }
        }
      }
      const int64_t at = y.at(n, k, oy, ox);
      const double extra = residual ? residual[at] : 0;
      if (!e.residual_after_activation) sum += extra;
      sum = apply_activation(e.activation, e.alpha, e.beta, sum);
      if (e.residual_after_activation) sum += extra;
      out[at] = static_cast<float>(sum);
    }
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

}  // namespace stretto::kernels::conv2d
