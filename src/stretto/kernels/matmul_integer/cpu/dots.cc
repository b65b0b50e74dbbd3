// One instruction adds four products of an unsigned and a signed byte to each 32-bit lane
// (vpdpbusd), in full: no sum saturates. Signed rows have their sign bit flipped, which adds 128 to
// them and to the zero point. The zero point comes off the finished sums, times the sum of the
// column's weights.
//
// The limit: 64 products an instruction on AVX-512, 32 on AVX-VNNI, mostly two instructions a
// cycle; with few rows, the bandwidth at which the weights arrive.
#include <cstring>

#include "stretto/kernels/matmul_integer/candidates.h"
#include "stretto/kernels/matmul_integer/cpu/plan.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/simd/targets.h"
#include "stretto/kernels/weights.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace stretto::kernels::matmul_integer {
namespace {

struct DotTile {
  const uint8_t* x;
  int64_t k;
  const int8_t* weights;
  const int32_t* column_sums;
  int32_t zero;
  const float *scale, *bias;
  int64_t scale_step;  // 0: one for all columns
  float* y;
  int64_t stride, columns;
};

inline int32_t four_bytes(const uint8_t* from) {
  int32_t to;
  std::memcpy(&to, from, sizeof(to));
  return to;
}

}  // namespace
}  // namespace stretto::kernels::matmul_integer

#if HWY_ARCH_X86
HWY_PUSH_ATTRIBUTES("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
namespace stretto::kernels::matmul_integer {
namespace {
namespace wide {

using Ints = __m512i;
constexpr int64_t kLanes = 16;

inline Ints set(int32_t value) { return _mm512_set1_epi32(value); }
inline Ints load(const void* from) { return _mm512_loadu_si512(from); }
inline Ints flip(Ints bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)); }
inline Ints dot(Ints sum, Ints x, Ints w) { return _mm512_dpbusd_epi32(sum, x, w); }
inline Ints product(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
inline Ints difference(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
inline void store(Ints sum, const float* scale, bool many, const float* bias, float* y,
                  int64_t count) {
  const auto mask = static_cast<__mmask16>(count >= 16 ? 0xffff : (1 << count) - 1);
  const __m512 factor = many ? _mm512_maskz_loadu_ps(mask, scale) : _mm512_set1_ps(*scale);
  const __m512 value =
      _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(mask, sum), factor, _mm512_loadu_ps(bias));
  _mm512_mask_storeu_ps(y, mask, value);
}

#include "stretto/kernels/matmul_integer/cpu/dots_tile.inc"

template <bool kSigned>
void run_tile(int rows, int vectors, const DotTile& t) {
  switch (vectors) {
    case 1:
      return dot_rows<1, kSigned>(rows, t);
    case 2:
      return dot_rows<2, kSigned>(rows, t);
    case 3:
      return dot_rows<3, kSigned>(rows, t);
    default:
      return dot_rows<4, kSigned>(rows, t);
  }
}

}  // namespace wide
}  // namespace
}  // namespace stretto::kernels::matmul_integer
HWY_POP_ATTRIBUTES

HWY_PUSH_ATTRIBUTES("avx2,fma,avxvnni")
namespace stretto::kernels::matmul_integer {
namespace {
namespace narrow {

using Ints = __m256i;
constexpr int64_t kLanes = 8;

inline Ints set(int32_t value) { return _mm256_set1_epi32(value); }
inline Ints load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i_u*>(from));
}
inline Ints flip(Ints bytes) { return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)); }
inline Ints dot(Ints sum, Ints x, Ints w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
inline Ints product(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
inline Ints difference(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
inline void store(Ints sum, const float* scale, bool many, const float* bias, float* y,
                  int64_t count) {
  const Ints mask = _mm256_cmpgt_epi32(set(static_cast<int32_t>(std::min<int64_t>(count, 8))),
                                       _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256 factor = many ? _mm256_maskload_ps(scale, mask) : _mm256_set1_ps(*scale);
  const __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), factor, _mm256_loadu_ps(bias));
  _mm256_maskstore_ps(y, mask, value);
}

#include "stretto/kernels/matmul_integer/cpu/dots_tile.inc"

template <bool kSigned>
void run_tile(int rows, int vectors, const DotTile& t) {
  vectors == 1 ? dot_rows<1, kSigned>(rows, t) : dot_rows<2, kSigned>(rows, t);
}

}  // namespace narrow
}  // namespace
}  // namespace stretto::kernels::matmul_integer
HWY_POP_ATTRIBUTES
#endif

namespace stretto::kernels::matmul_integer {
namespace {

// Whether the processor has the instruction for vectors of this instruction set.
bool has_dots(Isa isa) {
#if HWY_ARCH_X86
  static const bool with_512 = [] {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & (1u << 11)) != 0;
  }();
  static const bool with_256 = [] {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 4)) != 0;
  }();
  return isa == Isa::kAvx512 ? with_512 : isa == Isa::kAvx2 && with_256;
#else
  (void)isa;
  return false;
#endif
}

IntegerPlan dots_plan(const MatmulIntegerProblem& p) {
  return make_integer_plan(p, p.target.isa == Isa::kAvx512 ? 4 : 2);
}

Fit dots_fit(const MatmulIntegerProblem& p) {
  if (!has_dots(p.target.isa)) return Fit::no("the processor has no VNNI of that width");
  return Fit::yes(3 * weight_reuse(p.target, static_cast<double>(p.m), 6) * p.k / (p.k + 32.0));
}

std::string dots_packing(const MatmulIntegerProblem& p) {
  const IntegerPlan plan = dots_plan(p);
  return packing_text("matmul_integer_dots", 1, plan.lanes, plan.panels.count);
}

size_t dots_bytes(const MatmulIntegerProblem& p) {
  return static_cast<size_t>(dots_plan(p).columns) *
         (sizeof(float) + sizeof(int32_t) + static_cast<size_t>((p.k + 3) / 4 * 4));
}

void pack_dots(const MatmulIntegerProblem& p, std::span<const Tensor> constants,
               std::byte* packed) {
  const IntegerPlan plan = dots_plan(p);
  const int8_t* weight = constants[0].values<int8_t>().data();
  float* bias = reinterpret_cast<float*>(packed);
  auto* sums = reinterpret_cast<int32_t*>(bias + plan.columns);
  for (int64_t n = 0; n < plan.columns; ++n) {
    bias[n] = p.bias && n < p.n ? constants[1].values<float>()[static_cast<size_t>(n)] : 0;
    sums[n] = 0;
    for (int64_t k = 0; n < p.n && k < p.k; ++k) sums[n] += weight[k * p.n + n];
  }
  pack_groups(p, plan, 4, weight, reinterpret_cast<int8_t*>(sums + plan.columns));
}

void run(const MatmulIntegerProblem& p, const Args& args, const Worker& worker) {
#if HWY_ARCH_X86
  const IntegerPlan plan = dots_plan(p);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const auto* sums = reinterpret_cast<const int32_t*>(bias + plan.columns);
  const auto* weights = reinterpret_cast<const int8_t*>(sums + plan.columns);
  const int64_t steps = (p.k + 3) / 4 * 4;
  const bool wide = p.target.isa == Isa::kAvx512;
  const auto run_tile = wide          ? p.is_signed ? wide::run_tile<true> : wide::run_tile<false>
                                 : p.is_signed ? narrow::run_tile<true>
                                      : narrow::run_tile<false>;
  DotTile tile;
  tile.k = p.k;
  // In 32 bits a product may wrap, and so does the difference: back to the right value.
  tile.zero = zero_point(p, args) + (p.is_signed ? 128 : 0);
  tile.scale_step = p.scale_per_column;
  tile.stride = p.n;
  const GridPart grid = split_grid(p.m, plan.panels.count, worker, p.m, p.n);
  const EvenTiles tiles(grid.rows.end - grid.rows.begin, kMostRows);
  for (int64_t panel = grid.columns.begin; panel < grid.columns.end; ++panel) {
    const int64_t n0 = plan.panels.begin(panel) * plan.lanes;
    const int vectors = static_cast<int>(plan.panels.vectors(panel));
    tile.weights = weights + n0 * steps;
    tile.column_sums = sums + n0;
    tile.bias = bias + n0;
    tile.scale = static_cast<const float*>(args.inputs[1]) + (p.scale_per_column ? n0 : 0);
    tile.columns = p.n - n0;
    for (int64_t t = 0; t < tiles.tiles; ++t) {
      const int64_t m = grid.rows.begin + tiles.begin(t);
      tile.x = static_cast<const uint8_t*>(args.inputs[0]) + m * p.k;
      tile.y = static_cast<float*>(args.outputs[0]) + m * p.n + n0;
      run_tile(static_cast<int>(tiles.begin(t + 1) - tiles.begin(t)), vectors, tile);
    }
  }
#else
  (void)p, (void)args, (void)worker;  // fits no problem
#endif
}

}  // namespace

const Row kDots{.name = "dots",
                .fits = dots_fit,
                .packed_bytes = dots_bytes,
                .pack = pack_dots,
                .packing = dots_packing,
                .run = run};

}  // namespace stretto::kernels::matmul_integer
