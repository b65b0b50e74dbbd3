// How long a caller is inside submit() when nothing else is under way, and while all-reduces of
// 64 MB are: a backward pass must not wait behind their sums. Two ranks in two processes would give
// each a core; here they share the process's cores, which is the worse case.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

constexpr int64_t kLarge = 16 << 20;  // float32 values
constexpr int kSubmitted = 1000;
constexpr auto kPause = std::chrono::milliseconds(1);

void all_reduce(Engine& engine, Group group, std::vector<float>* values, double* submit_s) {
  const double begun_s = now_s();
  const Handle handle = engine.submit(group, {.count = static_cast<int64_t>(values->size()),
                                              .input = values->data(),
                                              .output = values->data()});
  *submit_s = now_s() - begun_s;
  engine.wait(handle);
}

// Both ranks do the same number of large all-reduces: rank 0 says in each whether it is the last.
void keep_busy(Engine& engine, Group group, const std::atomic<bool>& enough,
               std::atomic<int64_t>* summed) {
  std::vector<float> values(kLarge, 0.0f);
  double ignored = 0;
  while (values[0] == 0) {
    if (engine.membership().rank == 0 && enough) values[0] = 1;
    all_reduce(engine, group, &values, &ignored);
    ++*summed;
  }
}

void submit(benchmark::State& state) {
  const bool busy = state.range(0) != 0;
  std::vector<double> took_s;
  std::atomic<int64_t> summed = 0;
  for ([[maybe_unused]] auto _ : state) {
    std::atomic<bool> enough = false;
    const auto errors = testing::run_ranks(2, testing::two_hosts, [&](Engine& engine) {
      const Group large = engine.add_group("large", {0, 1}),
                  small = engine.add_group("small", {0, 1});
      std::thread others;
      if (busy) others = std::thread([&] { keep_busy(engine, large, enough, &summed); });
      std::vector<float> values(1, 0.0f);
      std::vector<double> mine(kSubmitted);
      for (double& submit_s : mine) {
        std::this_thread::sleep_for(kPause);
        all_reduce(engine, small, &values, &submit_s);
      }
      enough = true;
      if (busy) others.join();
      if (engine.membership().rank == 0) took_s.insert(took_s.end(), mine.begin(), mine.end());
    });
    for (const std::string& error : errors) STRETTO_CHECK(error.empty(), "{}", error);
  }
  std::sort(took_s.begin(), took_s.end());
  const auto quantile_us = [&](double share) {
    return took_s[static_cast<size_t>(share * static_cast<double>(took_s.size() - 1))] * 1e6;
  };
  state.counters["p50_us"] = quantile_us(0.5);
  state.counters["p99_us"] = quantile_us(0.99);
  state.counters["most_us"] = quantile_us(1);
  state.counters["large_sums"] = static_cast<double>(summed);
}
BENCHMARK(submit)
    ->ArgName("beside_64_MB")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stretto::comm
