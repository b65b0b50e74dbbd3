#include <algorithm>

#include "stretto/kernels/access.h"
#include "stretto/kernels/conv_transpose2d/candidates.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv_transpose2d {
namespace {

Fit fits(const ConvTranspose2dProblem&) { return Fit::yes(0.001); }

int64_t weights_of(const ConvTranspose2dProblem& p) {
  return p.c * (p.k / p.groups) * p.kernel_h * p.kernel_w;
}

std::string packing(const ConvTranspose2dProblem&) {
  return packing_text("conv_transpose2d_plain", 1, 1);
}

size_t packed_bytes(const ConvTranspose2dProblem& p) {
  return static_cast<size_t>(weights_of(p) + p.k) * sizeof(float);
}

void pack(const ConvTranspose2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  float* out = reinterpret_cast<float*>(packed);
  const auto weight = constants[0].values<float>();
  out = std::copy(weight.begin(), weight.end(), out);
  for (int64_t k = 0; k < p.k; ++k) out[k] = p.epilogue.bias ? constants[1].values<float>()[k] : 0;
}

// The input position that reaches output `o` through tap `r`; -1 when none does.
int64_t source(int64_t o, int64_t r, int64_t stride, int64_t dilation, int64_t pad, int64_t size) {
  const int64_t at = o + pad - r * dilation;
  return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

void run(const ConvTranspose2dProblem& p, const Args& args, const Worker& worker) {
  const int64_t oh = p.out_h(), ow = p.out_w(), cg = p.c / p.groups, kg = p.k / p.groups;
  const int block = p.target.block();
  const Access x({p.n, p.c, p.h, p.w}, p.x_layout, block);
  const Access y({p.n, p.k, oh, ow}, p.y_layout, block);
  const float* in = static_cast<const float*>(args.inputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* out = static_cast<float*>(args.outputs[0]);
  const float* weight = reinterpret_cast<const float*>(args.packed);
  const float* bias = weight + weights_of(p);
  const Epilogue& e = p.epilogue;

  const Range rows = split(p.n * p.k * oh, worker);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t n = row / (p.k * oh), k = row / oh % p.k, oy = row % oh;
    const int64_t c0 = k / kg * cg;
    for (int64_t ox = 0; ox < ow; ++ox) {
      double sum = bias[k];
      for (int r = 0; r < p.kernel_h; ++r) {
        const int64_t iy = source(oy, r, p.stride_h, p.dilation_h, p.pad_top, p.h);
        if (iy < 0) continue;
        for (int s = 0; s < p.kernel_w; ++s) {
          const int64_t ix = source(ox, s, p.stride_w, p.dilation_w, p.pad_left, p.w);
          if (ix < 0) continue;
          for (int64_t c = 0; c < cg; ++c) {
            const float w = weight[(((c0 + c) * kg + k % kg) * p.kernel_h + r) * p.kernel_w + s];
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

}  // namespace stretto::kernels::conv_transpose2d
