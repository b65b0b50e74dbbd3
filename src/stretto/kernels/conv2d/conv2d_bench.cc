// Every fitting row of conv2d on the layers of well-known networks. Per row: milliseconds,
// effective GFLOP/s, fraction of the fp32 peak of the threads in use. STRETTO_ISA caps the
// instruction set, STRETTO_BENCH_THREADS (default 1) sets the team, --benchmark_filter picks shapes
// or rows.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

struct Layer {
  const char* network;
  int64_t c, size, k;
  int32_t kernel, stride, groups = 1;
  Activation activation = Activation::kRelu;
  bool plain_input = false;
};

constexpr Layer kLayers[] = {
    {"resnet50", 64, 56, 64, 1, 1},
    {"resnet50", 64, 56, 256, 1, 1},
    {"resnet50", 256, 56, 64, 1, 1},
    {"resnet50", 256, 56, 128, 1, 1},
    {"resnet50", 128, 28, 512, 1, 1},
    {"resnet50", 512, 28, 128, 1, 1},
    {"resnet50", 512, 28, 256, 1, 1},
    {"resnet50", 256, 14, 1024, 1, 1},
    {"resnet50", 1024, 14, 256, 1, 1},
    {"resnet50", 1024, 14, 512, 1, 1},
    {"resnet50", 512, 7, 2048, 1, 1},
    {"resnet50", 2048, 7, 512, 1, 1},
    {"resnet50", 256, 56, 512, 1, 2},
    {"resnet50", 512, 28, 1024, 1, 2},
    {"resnet50", 1024, 14, 2048, 1, 2},
    {"resnet50", 3, 224, 64, 7, 2, 1, Activation::kRelu, true},
    {"resnet50", 64, 56, 64, 3, 1},
    {"resnet50", 128, 56, 128, 3, 2},
    {"resnet50", 256, 28, 256, 3, 2},
    {"resnet50", 512, 14, 512, 3, 2},
    {"resnet50", 128, 28, 128, 3, 1},
    {"resnet50", 256, 14, 256, 3, 1},
    {"resnet50", 512, 7, 512, 3, 1},
    {"centernet", 64, 128, 64, 3, 1},
    {"unet", 32, 256, 32, 3, 1},
    {"resnext50", 128, 56, 128, 3, 1, 32},
    {"resnext50", 256, 56, 256, 3, 2, 32},
    {"resnext50", 256, 28, 256, 3, 1, 32},
    {"resnext50", 512, 14, 512, 3, 1, 32},
    {"resnext50", 1024, 7, 1024, 3, 1, 32},
    {"mobilenet_v2", 16, 112, 96, 1, 1, 1, Activation::kClip},
    {"mobilenet_v2", 96, 56, 24, 1, 1, 1, Activation::kNone},
    {"mobilenet_v2", 144, 28, 32, 1, 1, 1, Activation::kNone},
    {"mobilenet_v2", 384, 14, 64, 1, 1, 1, Activation::kNone},
    {"mobilenet_v2", 160, 7, 960, 1, 1, 1, Activation::kClip},
    {"mobilenet_v2", 32, 112, 32, 3, 1, 32, Activation::kClip},
    {"mobilenet_v2", 96, 112, 96, 3, 2, 96, Activation::kClip},
    {"mobilenet_v2", 384, 14, 384, 3, 1, 384, Activation::kClip},
    {"mobilenet_v2", 960, 7, 960, 3, 1, 960, Activation::kClip},
    {"mobilenet_v2", 3, 224, 32, 3, 2, 1, Activation::kClip, true},
    {"efficientnet_b0", 40, 28, 240, 1, 1, 1, Activation::kSilu},
    {"efficientnet_b0", 240, 28, 240, 5, 1, 240, Activation::kSilu},
    {"efficientnet_b0", 672, 14, 672, 5, 1, 672, Activation::kSilu},
    {"efficientnet_b0", 1152, 1, 48, 1, 1, 1, Activation::kSilu},
    {"classifier", 2048, 1, 1000, 1, 1, 1, Activation::kNone},
};

Conv2dProblem make(const Layer& layer, int threads) {
  Conv2dProblem p;
  p.target = {.isa = usable_isa(), .accuracy = Accuracy::kFast, .threads = threads};
  p.c = layer.c;
  p.h = p.w = layer.size;
  p.k = layer.k;
  p.kernel_h = p.kernel_w = layer.kernel;
  p.stride_h = p.stride_w = layer.stride;
  p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = layer.kernel / 2;
  p.groups = layer.groups;
  p.x_layout = layer.plain_input ? Layout::kPlain : Layout::kBlocked;
  p.y_layout = Layout::kBlocked;
  p.epilogue = {.activation = layer.activation, .bias = true};
  if (layer.activation == Activation::kClip) p.epilogue.beta = 6;
  return p;
}

void time_row(benchmark::State& state, Conv2dProblem p, int row) {
  Workbench bench(kConv2d, &p);
  if (const Difference d = bench.check(row); d.relative_to_max > 1e-4) {
    state.SkipWithError("differs from the reference");
    return;
  }
  double best = 1e9;
  for (auto _ : state) {
    best = std::min(best, bench.time(std::span(&row, 1), {.budget_s = 0.15})[0]);
  }
  const double flops = problem_flops(p) / best;
  state.counters["ms"] = best * 1e3;
  state.counters["GFLOPs"] = flops / 1e9;
  state.counters["peak"] = flops / (peak_flops(p.target.isa) * p.target.threads);
}

const int kRegistered = [] {
  const char* text = std::getenv("STRETTO_BENCH_THREADS");
  const int threads = text ? std::atoi(text) : 1;
  for (const Layer& layer : kLayers) {
    const Conv2dProblem p = make(layer, threads);
    for (int row = 0; row < kConv2d.rows; ++row) {
      if (row == kConv2d.reference) continue;
      if (!kConv2d.fits(row, &p).ok) continue;
      const std::string name = std::string(layer.network) + "/" + problem_key(p) + "/" +
                               std::string(kConv2d.row_name(row));
      benchmark::RegisterBenchmark(name.c_str(), time_row, p, row)->Iterations(1);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
