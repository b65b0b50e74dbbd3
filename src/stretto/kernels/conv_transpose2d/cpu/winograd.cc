// 4x4 stride 2 (the upsampling layer of CenterNet and many decoders) on the Winograd engine: 9
// or 6.25 instead of 16 multiplications per input pixel and channel pair.
#include "stretto/kernels/conv_transpose2d/candidates.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/winograd/engine.h"

namespace stretto::kernels::conv_transpose2d {
namespace {

constexpr int64_t kFewestChannels = 16;

template <const winograd::Scheme& kScheme>
winograd::Task task_of(const ConvTranspose2dProblem& p) {
  return {.scheme = &kScheme,
          .target = p.target,
          .n = p.n,
          .c = p.c,
          .h = p.h,
          .w = p.w,
          .k = p.k,
          .out_h = p.out_h(),
          .out_w = p.out_w(),
          .pad_top = p.pad_top,
          .pad_left = p.pad_left,
          .groups = p.groups,
          .epilogue = p.epilogue};
}

template <const winograd::Scheme& kScheme, bool kStrict>
Fit fits(const ConvTranspose2dProblem& p) {
  if (p.n == 0) return Fit::no("no images");
  if (p.kernel_h != 4 || p.kernel_w != 4) return Fit::no("kernel is not 4x4");
  if (p.stride_h != 2 || p.stride_w != 2) return Fit::no("stride is not 2");
  if (p.dilation_h != 1 || p.dilation_w != 1) return Fit::no("dilated");
  if (p.pad_top != 1 || p.pad_left != 1) return Fit::no("leading pads are not 1");
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  const int64_t c = p.c / p.groups, k = p.k / p.groups, block = p.target.block();
  if (c < kFewestChannels || k < kFewestChannels) {
    return Fit::no("fewer than 16 input or output channels per group");
  }
  if (p.groups > 1 && (c % block != 0 || k % block != 0)) {
    return Fit::no("channels per group are no multiple of the block");
  }
  if (!kStrict && p.target.accuracy == Accuracy::kStrict) {
    return Fit::no("larger tiles round more than accuracy=strict allows");
  }
  return Fit::yes(winograd::expectation(task_of<kScheme>(p)));
}

template <const winograd::Scheme& kScheme>
std::string packing(const ConvTranspose2dProblem& p) {
  const winograd::Plan plan = winograd::make_plan(task_of<kScheme>(p));
  return packing_text("winograd", 1, plan.lanes, plan.panels.count);
}

template <const winograd::Scheme& kScheme>
size_t packed_bytes(const ConvTranspose2dProblem& p) {
  return winograd::packed_bytes(task_of<kScheme>(p));
}

template <const winograd::Scheme& kScheme>
void pack(const ConvTranspose2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const auto weight = constants[0].values<float>();
  const int64_t cg = p.c / p.groups, kg = p.k / p.groups;
  winograd::pack(
      task_of<kScheme>(p),
      [&](int64_t k, int64_t c, int y, int x) {
        return weight[(((k / kg * cg + c) * kg + k % kg) * 4 + y) * 4 + x];
      },
      p.epilogue.bias ? constants[1].values<float>().data() : nullptr, packed);
}

template <const winograd::Scheme& kScheme>
size_t scratch_bytes(const ConvTranspose2dProblem& p) {
  return winograd::scratch_bytes(task_of<kScheme>(p));
}

template <const winograd::Scheme& kScheme>
int phases(const ConvTranspose2dProblem& p) {
  return winograd::phases(task_of<kScheme>(p));
}

template <const winograd::Scheme& kScheme>
void run(const ConvTranspose2dProblem& p, const Args& args, const Worker& worker) {
  winograd::run(task_of<kScheme>(p), args, worker);
}

template <const winograd::Scheme& kScheme, bool kStrict>
constexpr Row make_row(std::string_view name) {
  return {.name = name,
          .fits = fits<kScheme, kStrict>,
          .packed_bytes = packed_bytes<kScheme>,
          .pack = pack<kScheme>,
          .packing = packing<kScheme>,
          .scratch_bytes = scratch_bytes<kScheme>,
          .phases = phases<kScheme>,
          .run = run<kScheme>};
}

}  // namespace

constexpr Row kWinogradF2 = make_row<winograd::kF2Transposed, true>("winograd_f2x2");
constexpr Row kWinogradF4 = make_row<winograd::kF4Transposed, false>("winograd_f4x4");

}  // namespace stretto::kernels::conv_transpose2d
