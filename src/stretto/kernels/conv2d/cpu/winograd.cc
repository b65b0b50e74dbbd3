// The Winograd rows: conv2d problems as tasks of the engine in kernels/winograd.
//
// A dilated convolution is a dense one per phase: output rows f, f + d, f + 2 d, ... read rows of
// the input that are d apart as well, and likewise columns. The maps of all phases are gathered
// into scratch as the images of one batch, and the results scattered. That moves each value twice
// more, which is little beside the products of many channels.
#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/winograd/engine.h"

namespace stretto::kernels::conv2d {
namespace {

// With fewer channels the transforms cost more than the multiplications they save, and errors are
// large beside the few products of an output.
constexpr int64_t kFewestChannels = 16;

bool dilated(const Conv2dProblem& p) { return p.dilation_h != 1 || p.dilation_w != 1; }

// The problem of all phases; p itself when it is not dilated.
Conv2dProblem dense(const Conv2dProblem& p) {
  if (!dilated(p)) return p;
  Conv2dProblem q = p;
  q.n *= static_cast<int64_t>(p.dilation_h) * p.dilation_w;
  q.h = (p.out_h() + p.dilation_h - 1) / p.dilation_h + p.kernel_h - 1;
  q.w = (p.out_w() + p.dilation_w - 1) / p.dilation_w + p.kernel_w - 1;
  q.dilation_h = q.dilation_w = 1;
  q.pad_top = q.pad_left = q.pad_bottom = q.pad_right = 0;
  return q;
}

// Values of blocked tensors, in whole cache lines.
int64_t input_values(const Conv2dProblem& p) {
  return round_up(p.n * round_up(p.c, p.target.block()) * p.h * p.w, 16);
}
int64_t output_values(const Conv2dProblem& p) {
  return round_up(p.n * round_up(p.k, p.target.block()) * p.out_h() * p.out_w(), 16);
}

// Scratch of a dilated problem before the engine's: the maps of x, the residual and y by phase.
int64_t gathered_values(const Conv2dProblem& p, const Conv2dProblem& q) {
  if (!dilated(p)) return 0;
  return input_values(q) + (p.epilogue.residual ? 2 : 1) * output_values(q);
}

// Blocked maps and their phases: pixel (y, x) of phase (fy, fx) is pixel (first_y + fy + y *
// step_y, first_x + fx + x * step_x) of the whole map, zero where that lies outside.
struct PhasedMaps {
  int64_t images, blocks, lanes;
  int64_t h, w;              // whole maps
  int64_t phase_h, phase_w;  // of each phase
  int64_t step_y, step_x;
  int64_t first_y, first_x;
};

PhasedMaps maps_of(const Conv2dProblem& p, const Conv2dProblem& q, bool input) {
  const int64_t lanes = p.target.block();
  return {.images = p.n,
          .blocks = blocks_of(input ? p.c : p.k, lanes),
          .lanes = lanes,
          .h = input ? p.h : p.out_h(),
          .w = input ? p.w : p.out_w(),
          .phase_h = input ? q.h : q.out_h(),
          .phase_w = input ? q.w : q.out_w(),
          .step_y = p.dilation_h,
          .step_x = p.dilation_w,
          .first_y = input ? -p.pad_top : 0,
          .first_x = input ? -p.pad_left : 0};
}

// Calls f(whole, phases, before, inside) for this worker's share of the rows of phases: the row at
// `phases` begins with `before` pixels that lie outside the whole map, then come `inside` pixels,
// the first of which is at `whole`, and the rest lies outside again.
template <typename F>
void for_rows(const PhasedMaps& m, const Worker& worker, F&& f) {
  const Range planes = split(m.images * m.step_y * m.step_x * m.blocks, worker);
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    const int64_t block = plane % m.blocks, phase = plane / m.blocks;
    const int64_t fx = phase % m.step_x, fy = phase / m.step_x % m.step_y;
    const int64_t image = phase / m.step_x / m.step_y;
    const int64_t x0 = m.first_x + fx;
    const int64_t before = std::min(m.phase_w, x0 < 0 ? (-x0 + m.step_x - 1) / m.step_x : 0);
    const int64_t inside =
        std::clamp<int64_t>((m.w - x0 + m.step_x - 1) / m.step_x - before, 0, m.phase_w - before);
    for (int64_t row = 0; row < m.phase_h; ++row) {
      const int64_t y = m.first_y + fy + row * m.step_y;
      const int64_t at = ((image * m.blocks + block) * m.h + y) * m.w + x0 + before * m.step_x;
      const bool out = y < 0 || y >= m.h;
      f(at * m.lanes, (plane * m.phase_h + row) * m.phase_w * m.lanes, out ? m.phase_w : before,
        out ? 0 : inside);
    }
  }
}

void gather(const PhasedMaps& m, const float* whole, float* phases, const Worker& worker) {
  const auto pixel = static_cast<size_t>(m.lanes) * sizeof(float);
  for_rows(m, worker, [&](int64_t from, int64_t to, int64_t before, int64_t inside) {
    float* out = std::fill_n(phases + to, before * m.lanes, 0.0f);
    for (int64_t i = 0; i < inside; ++i, out += m.lanes)
      std::memcpy(out, whole + from + i * m.step_x * m.lanes, pixel);
    std::fill(out, phases + to + m.phase_w * m.lanes, 0.0f);
  });
}

void scatter(const PhasedMaps& m, const float* phases, float* whole, const Worker& worker) {
  const auto pixel = static_cast<size_t>(m.lanes) * sizeof(float);
  for_rows(m, worker, [&](int64_t to, int64_t from, int64_t before, int64_t inside) {
    const float* in = phases + from + before * m.lanes;
    for (int64_t i = 0; i < inside; ++i, in += m.lanes)
      std::memcpy(whole + to + i * m.step_x * m.lanes, in, pixel);
  });
}

template <const winograd::Scheme& kScheme>
winograd::Task task_of(const Conv2dProblem& problem) {
  const Conv2dProblem p = dense(problem);
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

// What gathering and scattering leave of the expected fraction of the peak, which counts products
// of whole phases.
double with_copies(const Conv2dProblem& p, double fraction) {
  constexpr double kBytesPerCycle = 3;  // measured: pixels of one cache line, some distance apart
  const Conv2dProblem q = dense(p);
  const double lanes = static_cast<double>(p.target.lanes());
  const double cycles = problem_flops(q) / (4 * lanes * fraction);
  const double copies = static_cast<double>(gathered_values(p, q)) * sizeof(float) / kBytesPerCycle;
  return problem_flops(p) / (4 * lanes * (cycles + copies));
}

template <const winograd::Scheme& kScheme, int kStride, Accuracy kAccuracy>
Fit fits(const Conv2dProblem& p) {
  if (p.n == 0) return Fit::no("no images");
  if (p.exact) return Fit::no("transforms round");
  if (p.kernel_h != 3 || p.kernel_w != 3) return Fit::no("kernel is not 3x3");
  if (p.stride_h != kStride || p.stride_w != kStride) {
    return Fit::no(kStride == 1 ? "stride is not 1" : "stride is not 2");
  }
  if (dilated(p) && kStride != 1) return Fit::no("dilated");
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
  if (p.target.accuracy < kAccuracy) {
    return Fit::no(fmt::format("larger tiles round more than accuracy={} allows",
                               accuracy_name(p.target.accuracy)));
  }
  const double fraction = winograd::expectation(task_of<kScheme>(p));
  return Fit::yes(dilated(p) ? with_copies(p, fraction) : fraction);
}

template <const winograd::Scheme& kScheme>
std::string packing(const Conv2dProblem& p) {
  const winograd::Plan plan = winograd::make_plan(task_of<kScheme>(p));
  return packing_text("winograd", 1, plan.lanes, plan.panels.count);
}

template <const winograd::Scheme& kScheme>
size_t packed_bytes(const Conv2dProblem& p) {
  return winograd::packed_bytes(task_of<kScheme>(p));
}

template <const winograd::Scheme& kScheme>
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const auto weight = constants[0].values<float>();
  const int64_t c_count = p.c / p.groups;
  winograd::pack(
      task_of<kScheme>(p),
      [&](int64_t k, int64_t c, int y, int x) {
        return weight[((k * c_count + c) * 3 + y) * 3 + x];
      },
      p.epilogue.bias ? constants[1].values<float>().data() : nullptr, packed);
}

template <const winograd::Scheme& kScheme>
size_t scratch_bytes(const Conv2dProblem& p) {
  return winograd::scratch_bytes(task_of<kScheme>(p)) +
         static_cast<size_t>(gathered_values(p, dense(p))) * sizeof(float);
}

template <const winograd::Scheme& kScheme>
int phases(const Conv2dProblem& p) {
  return winograd::phases(task_of<kScheme>(p)) + (dilated(p) ? 2 : 0);
}

template <const winograd::Scheme& kScheme>
void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  if (!dilated(p)) {
    winograd::run(task_of<kScheme>(p), args, worker);
    return;
  }
  const Conv2dProblem q = dense(p);
  const PhasedMaps in = maps_of(p, q, true), out = maps_of(p, q, false);
  float* const x = reinterpret_cast<float*>(args.scratch);
  float* const y = x + input_values(q);
  float* const residual = p.epilogue.residual ? y + output_values(q) : nullptr;
  const int last = phases<kScheme>(p) - 1;
  if (worker.phase == 0) {
    gather(in, static_cast<const float*>(args.inputs[0]), x, worker);
    if (residual) gather(out, static_cast<const float*>(args.inputs[1]), residual, worker);
    return;
  }
  if (worker.phase == last) return scatter(out, y, static_cast<float*>(args.outputs[0]), worker);
  const void* inputs[] = {x, residual};
  void* outputs[] = {y};
  Args dense_args = args;
  dense_args.inputs = inputs;
  dense_args.outputs = outputs;
  dense_args.scratch += gathered_values(p, q) * static_cast<int64_t>(sizeof(float));
  Worker inner = worker;
  --inner.phase;
  winograd::run(task_of<kScheme>(p), dense_args, inner);
}

template <const winograd::Scheme& kScheme, int kStride, Accuracy kAccuracy>
constexpr Row make_row(std::string_view name) {
  return {.name = name,
          .fits = fits<kScheme, kStride, kAccuracy>,
          .packed_bytes = packed_bytes<kScheme>,
          .pack = pack<kScheme>,
          .packing = packing<kScheme>,
          .scratch_bytes = scratch_bytes<kScheme>,
          .phases = phases<kScheme>,
          .run = run<kScheme>};
}

}  // namespace

constexpr Row kWinogradF2 = make_row<winograd::kF2, 1, Accuracy::kStrict>("winograd_f2x2");
constexpr Row kWinogradF4 = make_row<winograd::kF4, 1, Accuracy::kDefault>("winograd_f4x4");
constexpr Row kWinogradF6 = make_row<winograd::kF6, 1, Accuracy::kFast>("winograd_f6x6");
constexpr Row kWinogradF2Stride2 =
    make_row<winograd::kF2Stride2, 2, Accuracy::kStrict>("winograd_s2_f2x2");
constexpr Row kWinogradF4Stride2 =
    make_row<winograd::kF4Stride2, 2, Accuracy::kDefault>("winograd_s2_f4x4");

}  // namespace stretto::kernels::conv2d
