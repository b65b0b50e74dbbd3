// Every row of matmul on attention shapes. Counters and settings as in conv2d_bench.cc.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/matmul/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

struct Product {
  const char* network;
  int64_t batch, m, k, n;
  int32_t transposed = 0;
};

constexpr Product kProducts[] = {
    {"bert_scores", 12, 128, 64, 128, 1}, {"bert_mix", 12, 128, 128, 64},
    {"vit_scores", 12, 197, 64, 197, 1},  {"vit_mix", 12, 197, 197, 64},
    {"square", 1, 512, 512, 512},         {"decode_scores", 12, 1, 64, 512, 1},
};

void time_row(benchmark::State& state, MatmulProblem p, int row) {
  Workbench bench(kMatmul, &p);
  if (const Difference d = bench.check(row); d.relative_to_max > 2e-5) {
    state.SkipWithError("differs from the reference");
    return;
  }
  double best = 1e9;
  for (auto _ : state) {
    best = std::min(best, bench.time(std::span(&row, 1), {.budget_s = 0.1})[0]);
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
    MatmulProblem p{.rank = 1,
                    .batch = {product.batch},
                    .m = product.m,
                    .n = product.n,
                    .k = product.k,
                    .transposed = product.transposed};
    p.target = {.isa = usable_isa(), .threads = threads};
    for (int row = 0; row < kMatmul.rows; ++row) {
      if (row == kMatmul.reference) continue;
      const std::string name = std::string(product.network) + "/" + problem_key(p) + "/" +
                               std::string(kMatmul.row_name(row));
      benchmark::RegisterBenchmark(name.c_str(), time_row, p, row)->Iterations(1);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
