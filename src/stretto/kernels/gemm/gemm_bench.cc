// Every row of gemm on transformer and classifier shapes. Counters and settings as in
// conv2d_bench.cc.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

struct Product {
  const char* network;
  int64_t m, k, n;
  Activation activation = Activation::kNone;
};

constexpr Product kProducts[] = {
    {"bert", 128, 768, 768},
    {"bert", 128, 768, 2304},
    {"bert", 128, 768, 3072},
    {"bert", 128, 768, 3072, Activation::kGelu},
    {"bert", 128, 3072, 768},
    {"vit", 197, 768, 768},
    {"vit", 197, 768, 2304},
    {"vit", 197, 768, 3072},
    {"vit", 197, 768, 3072, Activation::kGelu},
    {"vit", 197, 3072, 768},
    {"gpt2", 128, 768, 50257},
    {"square", 1024, 1024, 1024},
    {"lstm", 1, 512, 2048},
    {"classifier", 1, 2048, 1000},
    {"classifier", 8, 2048, 1000},
};

void time_row(benchmark::State& state, GemmProblem p, int row) {
  Workbench bench(kGemm, &p);
  if (const Difference d = bench.check(row); d.relative_to_max > 2e-5) {
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
  for (const Product& product : kProducts) {
    GemmProblem p{.m = product.m,
                  .n = product.n,
                  .k = product.k,
                  .epilogue = {.activation = product.activation, .bias = true}};
    p.target = {.isa = usable_isa(), .threads = threads};
    for (int row = 0; row < kGemm.rows; ++row) {
      if (row == kGemm.reference) continue;
      const std::string name = std::string(product.network) + "/" + problem_key(p) + "/" +
                               std::string(kGemm.row_name(row));
      benchmark::RegisterBenchmark(name.c_str(), time_row, p, row)->Iterations(1);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
