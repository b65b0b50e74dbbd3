#include "stretto/base/measure_rates.h"

#include <algorithm>
#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto {
namespace {

// Loops over independent sums: on x86-64 twelve cover the latency of two FMA pipes, on Arm 24 that
// of four. They are assembly, because a compiler may leave sums in memory, as GCC does without
// optimisation; what is measured then is how fast it stores (44 instead of 100 GFLOP/s on a Zen 3).
// Operand 0 counts down the rounds, operand 1 is a vector of values that stay finite.
using Vector = float __attribute__((vector_size(16)));
constexpr Vector kValues = {0.5f, 0.5f, 0.5f, 0.5f};

#if defined(__x86_64__)
constexpr int kSums = 12;
#define STRETTO_SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define STRETTO_SSE(n) "movaps %1, %%xmm12\nmulps %1, %%xmm12\naddps %%xmm12, %%xmm" #n "\n"
#define STRETTO_AVX2(n) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #n "\n"
#define STRETTO_AVX512(n) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" #n "\n"
#define STRETTO_FIRST_SSE(n) "movaps %1, %%xmm" #n "\n"
#define STRETTO_FIRST_AVX2(n) "vmovaps %%ymm12, %%ymm" #n "\n"
#define STRETTO_FIRST_AVX512(n) "vmovaps %%zmm12, %%zmm" #n "\n"
#define STRETTO_LOOP(X)           \
  STRETTO_SUMS(STRETTO_FIRST_##X) \
  ".p2align 6\n1:\n" STRETTO_SUMS(STRETTO_##X) "dec %0\njnz 1b\n"
#define STRETTO_CHANGED                                                                    \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "cc"

void fma_loop_baseline(int64_t rounds) {
  asm volatile(STRETTO_LOOP(SSE) : "+r"(rounds) : "x"(kValues) : STRETTO_CHANGED);
}

void fma_loop_avx2(int64_t rounds) {
  asm volatile("vbroadcastss %1, %%ymm12\n" STRETTO_LOOP(AVX2) "vzeroupper\n"
               : "+r"(rounds)
               : "x"(kValues)
               : STRETTO_CHANGED);
}

void fma_loop_avx512(int64_t rounds) {
  asm volatile("vbroadcastss %1, %%zmm12\n" STRETTO_LOOP(AVX512) "vzeroupper\n"
               : "+r"(rounds)
               : "x"(kValues)
               : STRETTO_CHANGED);
}
#elif defined(__aarch64__)
constexpr int kSums = 24;
// clang-format off
#define STRETTO_SUMS(X)                                             \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)     \
  X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
// clang-format on
#define STRETTO_FIRST(n) "mov v" #n ".16b, %1.16b\n"
#define STRETTO_NEON(n) "fmla v" #n ".4s, %1.4s, %1.4s\n"

void fma_loop_baseline(int64_t rounds) {
  asm volatile(
      STRETTO_SUMS(STRETTO_FIRST) "1:\n" STRETTO_SUMS(STRETTO_NEON) "subs %0, %0, #1\nb.ne 1b\n"
      : "+r"(rounds)
      : "w"(kValues)
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "cc");
}
#else
constexpr int kSums = 12;

void fma_loop_baseline(int64_t rounds) {
  Vector sums[kSums], x = kValues;
#pragma GCC unroll 12
  for (auto& sum : sums) sum = x;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = x * x + sum;
      asm volatile("" : "+m"(sum));
    }
  }
}
#endif

}  // namespace

double measure_peak(Isa isa) {
  void (*loop)(int64_t) = fma_loop_baseline;
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) loop = fma_loop_avx512;
  if (isa == Isa::kAvx2) loop = fma_loop_avx2;
#endif
  constexpr int64_t kRounds = 20000;
  const double flops = 2.0 * kSums * isa_lanes(isa) * kRounds;
  double best = 0;
  for (int i = 0; i < 12; ++i) {
    const double start = now_s();
    loop(kRounds);
    best = std::max(best, flops / (now_s() - start));
  }
  return best;
}

}  // namespace stretto
