// 3x3 convolution with 2, 4 or 8 channels per group (ResNeXt): several groups share a vector. A
// channel is spread over the lanes of its group by one shuffle, which serves all taps of a kernel
// row, so shuffles are a third of the multiply-adds (stride 1) and hide behind them.
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/strips.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

Fit fits(const Conv2dProblem& p) {
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  const int64_t group = p.c / p.groups, block = p.target.block();
  if (p.k != p.c) return Fit::no("input and output channels differ");
  if (group >= block || grouped_strip(p.target.isa, static_cast<int>(group), 1, 1) == nullptr) {
    return Fit::no("channels per group are not 2, 4 or 8, below the block");
  }
  if (p.kernel_h != 3 || !suits_strips(p) || p.stride_h > 2) return Fit::no("geometry");
  const double useful =
      static_cast<double>(p.c) / static_cast<double>(blocks_of(p.c, block) * block);
  const double columns = static_cast<double>(p.out_w());
  return Fit::yes((p.stride_h == 1 ? 0.9 : 0.75) * useful * columns / (columns + 1.5));
}

std::string packing(const Conv2dProblem& p) {
  return packing_text("conv2d_grouped", 1, p.target.block());
}

size_t packed_bytes(const Conv2dProblem& p) {
  const int64_t block = p.target.block();
  return static_cast<size_t>(blocks_of(p.c, block) * block * (p.c / p.groups * 9 + 1)) *
         sizeof(float);
}

// bias [channels], then [channel block][kernel row][channel of the group][kernel column][lane].
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const int64_t block = p.target.block(), group = p.c / p.groups;
  float* out = pack_bias(p, constants, reinterpret_cast<float*>(packed));
  const auto weight = constants[0].values<float>();
  for (int64_t k0 = 0; k0 < p.k; k0 += block) {
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < group; ++c) {
        for (int64_t s = 0; s < 3; ++s) {
          for (int64_t k = k0; k < k0 + block; ++k) {
            *out++ = k < p.k ? weight[((k * group + c) * 3 + r) * 3 + s] : 0;
          }
        }
      }
    }
  }
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const int group = static_cast<int>(p.c / p.groups);
  run_strips(p, args, worker, 9 * group * p.target.block(), grouped_strip_columns(p.target.isa),
             [&](int columns) { return grouped_strip(p.target.isa, group, p.stride_h, columns); });
}

}  // namespace

const Row kGrouped{.name = "grouped",
                   .fits = fits,
                   .packed_bytes = packed_bytes,
                   .pack = pack,
                   .packing = packing,
                   .scratch_bytes = nullptr,
                   .run = run};

}  // namespace stretto::kernels::conv2d
