// Codecs, sums and scans on one core, in GB/s of fp32 gradient: in the second-level cache, as the
// pieces of a pipeline are, and from memory. encode has error feedback where the codec loses
// anything. `memcpy` beside them says what the machine can do.
#include "stretto/comm/codec/codec.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "stretto/comm/reduce/reduce.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {
namespace {

constexpr int64_t kCached = 32 << 10, kMemory = 16 << 20;  // elements

struct Buffers {
  explicit Buffers(int64_t count) : in(count), out(count), residual(count), coded(5 * count) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& x : in) x = normal(random);
  }
  std::vector<float> in, out, residual;
  std::vector<std::byte> coded;
};

// Best of many runs: the machine is noisy.
void time_run(benchmark::State& state, int64_t count, const auto& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (auto _ : state) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  state.counters["GBps"] = 4e-9 * static_cast<double>(count) / best;
}

void register_all(int64_t count, const std::string& where) {
  const auto add = [&](const std::string& name, auto run) {
    benchmark::RegisterBenchmark((name + "/" + where).c_str(), [=](benchmark::State& state) {
      Buffers buffers(count);
      time_run(state, count, [&] { run(buffers); });
    });
  };
  const Isa isa = usable_isa();
  add("memcpy", [=](Buffers& b) { std::memcpy(b.out.data(), b.in.data(), 4 * count); });
  for (const Codec& codec : codecs()) {
    const Codec* row = &codec;
    const std::string name(codec.name);
    const bool lossy = name != "none";
    add(name + "/encode", [=](Buffers& b) {
      row->encode(isa, b.in.data(), lossy ? b.residual.data() : nullptr, count, b.coded.data());
    });
    add(name + "/encode_plain",
        [=](Buffers& b) { row->encode(isa, b.in.data(), nullptr, count, b.coded.data()); });
    add(name + "/decode_add",
        [=](Buffers& b) { row->decode_add(isa, b.coded.data(), count, b.out.data()); });
  }
  add("scan", [=](Buffers& b) {
    benchmark::DoNotOptimize(scan_non_finite(isa, DType::kFloat32, b.in.data(), count));
  });
  for (const int n : {2, 4})
    add("sum of " + std::to_string(n), [=](Buffers& b) {
      std::vector<ReduceSource> sources(n, {.data = b.in.data()});
      sources[0].data = b.out.data();
      reduce(isa, {}, sources, count, b.out.data());
    });
}

const int kRegistered = [] {
  register_all(kCached, "cached");
  register_all(kMemory, "memory");
  return 0;
}();

}  // namespace
}  // namespace stretto::comm
