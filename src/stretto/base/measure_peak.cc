#include "stretto/base/measure_rates.h"

#include <algorithm>
#include <cstdint>

#include "stretto/base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace stretto {
namespace {

// Independent accumulators of the loops below: on x86-64 they cover the latency of two FMA pipes,
// on Arm that of four. All loops over them are unrolled: where one is not, GCC
// leaves them in memory, and what is measured is how fast it stores (44 instead of 100 GFLOP/s on a
// Zen 3).
#if defined(__aarch64__)
constexpr int kSums = 24;
#else
constexpr int kSums = 12;
#endif

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void fma_loop_avx512(int64_t rounds) {
  __m512 a[kSums];
#pragma GCC unroll 12
  for (auto& v : a) v = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& v : a) {
      v = _mm512_fmadd_ps(x, x, v);
      asm volatile("" : "+v"(v));
    }
  }
}

__attribute__((target("avx2,fma"))) void fma_loop_avx2(int64_t rounds) {
  __m256 a[kSums];
#pragma GCC unroll 12
  for (auto& v : a) v = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& v : a) {
      v = _mm256_fmadd_ps(x, x, v);
      asm volatile("" : "+x"(v));
    }
  }
}
#endif

#if defined(__aarch64__)
void fma_loop_baseline(int64_t rounds) {
  float32x4_t a[kSums];
#pragma GCC unroll 24
  for (auto& v : a) v = vdupq_n_f32(0);
  const float32x4_t x = vdupq_n_f32(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (auto& v : a) {
      v = vfmaq_f32(v, x, x);
      asm volatile("" : "+w"(v));
    }
  }
}
#else
void fma_loop_baseline(int64_t rounds) {
  using Vector = float __attribute__((vector_size(16)));
  Vector a[kSums];
#pragma GCC unroll 12
  for (auto& v : a) v = Vector{};
  Vector x = {0.5f, 0.5f, 0.5f, 0.5f};
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& v : a) {
#if defined(__x86_64__)
      asm volatile("" : "+x"(x));  // or the product would be made once
      v = x * x + v;
      asm volatile("" : "+x"(v));
#else
      v = x * x + v;
      asm volatile("" : "+m"(v));
#endif
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
