// The recurrent rows on layers of speech and language models. Counters and settings as in
// conv2d_bench.cc; GB/s counts the recurrent weights, which every step reads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/recurrent/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

struct Layer {
  RecurrentCell cell;
  int64_t steps, batch, inputs, hidden;
};

constexpr Layer kLayers[] = {
    {RecurrentCell::kLstm, 64, 1, 256, 512},  {RecurrentCell::kLstm, 64, 1, 512, 512},
    {RecurrentCell::kLstm, 64, 1, 256, 1024}, {RecurrentCell::kLstm, 64, 8, 256, 512},
    {RecurrentCell::kLstm, 64, 1, 64, 128},   {RecurrentCell::kGru, 64, 1, 256, 512},
    {RecurrentCell::kRnn, 64, 1, 256, 512},
};

void time_row(benchmark::State& state, RecurrentProblem p, int row) {
  Workbench bench(kRecurrent, &p);
  if (const Difference d = bench.check(row); d.relative_to_max > 2e-5) {
    state.SkipWithError("differs from the reference");
    return;
  }
  double best = 1e9;
  for (auto _ : state) {
    best = std::min(best, bench.time(std::span(&row, 1), {.budget_s = 0.15})[0]);
  }
  const double flops = problem_flops(p) / best;
  const double weights = static_cast<double>(p.steps * p.gates() * p.hidden * p.hidden) * 4;
  state.counters["ms"] = best * 1e3;
  state.counters["GFLOPs"] = flops / 1e9;
  state.counters["peak"] = flops / (peak_flops(p.target.isa) * p.target.threads);
  state.counters["GB/s"] = weights / best / 1e9;
}

const int kRegistered = [] {
  const char* text = std::getenv("STRETTO_BENCH_THREADS");
  const int threads = text ? std::atoi(text) : 1;
  for (const Layer& layer : kLayers) {
    RecurrentProblem p{.target = {.isa = usable_isa(), .threads = threads},
                       .steps = layer.steps,
                       .batch = layer.batch,
                       .inputs = layer.inputs,
                       .hidden = layer.hidden,
                       .cell = layer.cell,
                       .bias = 1};
    if (layer.cell != RecurrentCell::kRnn) p.functions[0][0].activation = Activation::kSigmoid;
    for (int row = 0; row < kRecurrent.rows; ++row) {
      if (row == kRecurrent.reference) continue;
      const std::string name = problem_key(p) + "/" + std::string(kRecurrent.row_name(row));
      benchmark::RegisterBenchmark(name.c_str(), time_row, p, row)->Iterations(1);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
