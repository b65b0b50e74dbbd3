// Every fitting row of conv_transpose2d on the upsampling layers of well-known networks. Counters
// and settings as in conv2d_bench.cc.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

struct Layer {
  const char* network;
  int64_t c, size, k;
  int32_t kernel, pad;
};

constexpr Layer kLayers[] = {
    {"centernet", 512, 16, 256, 4, 1}, {"centernet", 256, 32, 256, 4, 1},
    {"centernet", 256, 64, 256, 4, 1}, {"centernet", 128, 64, 64, 4, 1},
    {"unet", 512, 16, 256, 2, 0},      {"unet", 256, 32, 128, 2, 0},
    {"unet", 128, 64, 64, 2, 0},       {"unet", 64, 128, 32, 2, 0},
    {"decoder", 64, 56, 64, 3, 1},
};

void time_row(benchmark::State& state, ConvTranspose2dProblem p, int row) {
  Workbench bench(kConvTranspose2d, &p);
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
    ConvTranspose2dProblem p;
    p.target = {.isa = usable_isa(), .threads = threads};
    p.c = layer.c;
    p.h = p.w = layer.size;
    p.k = layer.k;
    p.kernel_h = p.kernel_w = layer.kernel;
    p.stride_h = p.stride_w = 2;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = layer.pad;
    p.x_layout = p.y_layout = Layout::kBlocked;
    p.epilogue = {.activation = Activation::kRelu, .bias = true};
    for (int row = 0; row < kConvTranspose2d.rows; ++row) {
      if (row == kConvTranspose2d.reference) continue;
      if (!kConvTranspose2d.fits(row, &p).ok) continue;
      const std::string name = std::string(layer.network) + "/" + problem_key(p) + "/" +
                               std::string(kConvTranspose2d.row_name(row));
      benchmark::RegisterBenchmark(name.c_str(), time_row, p, row)->Iterations(1);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
