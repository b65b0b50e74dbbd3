#include "stretto/kernels/simd/panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/simd/panel.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void pack_rows(const float* from, int64_t stride, int64_t steps, int64_t columns, int64_t width,
               float scale, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const auto factor = hn::Set(d, scale);
  for (int64_t i = 0; i < steps; ++i, from += stride, to += width) {
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + j), factor), d, to + j);
    }
    for (; j < columns; ++j) to[j] = from[j] * scale;
    for (; j < width; ++j) to[j] = 0;
  }
}

// Blocks of 4x4 in 128-bit registers: half a shuffle and a quarter of a load and store per value.
void pack_transposed(const float* from, int64_t stride, int64_t steps, int64_t columns,
                     int64_t width, float scale, float* HWY_RESTRICT to) {
  const hn::FixedTag<float, 4> d;
  const auto factor = hn::Set(d, scale);
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    const float* row = from + j * stride;
    int64_t i = 0;
    for (; i + 4 <= steps; i += 4) {
      const auto r0 = hn::Mul(hn::LoadU(d, row + i), factor);
      const auto r1 = hn::Mul(hn::LoadU(d, row + stride + i), factor);
      const auto r2 = hn::Mul(hn::LoadU(d, row + 2 * stride + i), factor);
      const auto r3 = hn::Mul(hn::LoadU(d, row + 3 * stride + i), factor);
      const auto low02 = hn::InterleaveLower(d, r0, r2), high02 = hn::InterleaveUpper(d, r0, r2);
      const auto low13 = hn::InterleaveLower(d, r1, r3), high13 = hn::InterleaveUpper(d, r1, r3);
      float* out = to + i * width + j;
      hn::StoreU(hn::InterleaveLower(d, low02, low13), d, out);
      hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, out + width);
      hn::StoreU(hn::InterleaveLower(d, high02, high13), d, out + 2 * width);
      hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, out + 3 * width);
    }
    for (; i < steps; ++i) {
      for (int64_t q = 0; q < 4; ++q) to[i * width + j + q] = row[q * stride + i] * scale;
    }
  }
  for (int64_t i = 0; i < steps; ++i) {
    for (int64_t q = j; q < width; ++q) {
      to[i * width + q] = q < columns ? from[q * stride + i] * scale : 0;
    }
  }
}

}  // namespace

void pack_any(const float* from, int64_t stride, bool transposed, int64_t steps, int64_t columns,
              int64_t width, float scale, float* to) {
  (transposed ? pack_transposed : pack_rows)(from, stride, steps, columns, width, scale, to);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels {

void pack_panel(Isa isa, const float* from, int64_t stride, bool transposed, int64_t steps,
                int64_t columns, int64_t width, float scale, float* to) {
  STRETTO_ISA_SELECT(isa, pack_any)(from, stride, transposed, steps, columns, width, scale, to);
}

}  // namespace stretto::kernels
#endif
