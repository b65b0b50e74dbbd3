// Every activation alone, as epilogues apply it, on values that lie in L1: time per vector,
// including that of a copy, without which the values would shrink from run to run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels {
namespace {

void time_activation(benchmark::State& state, Isa isa, Activation activation) {
  constexpr int64_t kCount = 256;
  std::vector<float> x(kCount), y(kCount);
  for (int64_t i = 0; i < kCount; ++i) {  // -8 to 8 in no order
    x[static_cast<size_t>(i)] = static_cast<float>(i * 2654435761 % 256) / 16 - 8;
  }
  const Epilogue epilogue{.activation = activation, .alpha = 0.2f, .beta = 0.5f};
  for (auto _ : state) {
    std::copy(x.begin(), x.end(), y.begin());
    tile_set(isa).finish_flat(epilogue, y.data(), kCount, nullptr);
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  const auto vectors = static_cast<double>(kCount / isa_lanes(isa));
  state.counters["per_vector"] = benchmark::Counter(
      vectors, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

const int kRegistered = [] {
  const Isa isa = usable_isa();
  for (const Activation activation : activations()) {
    const std::string name =
        "activation/" + std::string(isa_name(isa)) + "/" + std::string(activation_name(activation));
    benchmark::RegisterBenchmark(name.c_str(), time_activation, isa, activation);
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
