#include "stretto/base/measure_rates.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "stretto/base/clock.h"
#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/memory.h"
#include "stretto/base/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stretto {
namespace {

// As many as the weights of a model, where there is memory for them.
constexpr int64_t kBytes = 128 << 20, kFewBytes = 16 << 20;
constexpr int kPasses = 4;

// Reads whole blocks of 256 bytes. With loads as wide as those of the kernels, because on an Intel
// server narrow ones get half of the memory rate.
using Read = void (*)(const float* begin, const float* end);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void read_avx512(const float* p, const float* end) {
  __m512 sums[4] = {};
  for (; p < end; p += 64) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sums[i] = _mm512_add_ps(sums[i], _mm512_loadu_ps(p + 16 * i));
  }
  asm volatile("" : : "v"(sums[0]), "v"(sums[1]), "v"(sums[2]), "v"(sums[3]));
}

__attribute__((target("avx2"))) void read_avx2(const float* p, const float* end) {
  __m256 sums[8] = {};
  for (; p < end; p += 64) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sums[i] = _mm256_add_ps(sums[i], _mm256_loadu_ps(p + 8 * i));
  }
  for (const __m256& sum : sums) asm volatile("" : : "x"(sum));
}
#endif

void read_portable(const float* p, const float* end) {
  using Vector = float __attribute__((vector_size(16), aligned(4)));
  Vector sums[16] = {};
  for (; p < end; p += 64) {
    for (int i = 0; i < 16; ++i) sums[i] += *reinterpret_cast<const Vector*>(p + 4 * i);
  }
  for (const Vector& sum : sums) asm volatile("" : : "m"(sum));
}

Read reader() {
#if defined(__x86_64__)
  if (cpu_info().isa == Isa::kAvx512) return read_avx512;
  if (cpu_info().isa == Isa::kAvx2) return read_avx2;
#endif
  return read_portable;
}

// The best of some passes: other work on the machine only makes them longer.
double measure(int threads, std::span<const float> values) {
  ThreadTeam team(threads);
  const Read read = reader();
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = now_s();
    team.run([&](const Worker& worker) {
      const Range mine = split(static_cast<int64_t>(values.size()), worker, 64);
      read(values.data() + mine.begin, values.data() + mine.end);
    });
    best = std::max(best, static_cast<double>(values.size_bytes()) / (now_s() - start));
  }
  return best;
}

}  // namespace

MemoryRate measure_memory() {
  const auto wanted = static_cast<size_t>(std::clamp(total_memory_bytes() / 16, kFewBytes, kBytes));
  const size_t bytes = wanted / kHugePage * kHugePage;
  const std::unique_ptr<float, decltype(&std::free)> memory(
      static_cast<float*>(allocate_in_huge_pages(bytes)), std::free);
  if (!memory) throw_unsupported("memory: the system refused {} bytes", bytes);
  const std::span<float> values(memory.get(), bytes / sizeof(float));
  std::ranges::fill(values, 1.0f);
  const int threads = std::clamp(cpu_info().cores, 1, kMostMemoryThreads);
  const double one = measure(1, values);
  const double together = threads > 1 ? std::max(measure(threads, values), one) : one;
  return {.one = one, .together = together};
}

}  // namespace stretto
