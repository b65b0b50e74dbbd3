// One source, every instruction set. A SIMD kernel file is written once against Highway and
// compiled for each target by Highway's foreach_target (three on x86-64, one on Arm); the pattern
// is
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "stretto/kernels/conv2d/cpu/direct.cc"   // this file
//   #include "stretto/base/simd_targets.h"
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
//   HWY_BEFORE_NAMESPACE();
//   namespace stretto::kernels::HWY_NAMESPACE { namespace hn = hwy::HWY_NAMESPACE; ... void f(int);
//   } HWY_AFTER_NAMESPACE(); #if HWY_ONCE namespace stretto::kernels { void f(Isa isa, int x) {
//   STRETTO_ISA_SELECT(isa, f)(x); } } #endif
//
// Code between BEFORE and AFTER must not instantiate non-inlined templates of the standard library.
// Vectors are hn::ScalableTag<float>: 16, 8 or 4 lanes = isa_lanes(isa) = the layout's block.
#ifndef STRETTO_BASE_SIMD_TARGETS_H_
#define STRETTO_BASE_SIMD_TARGETS_H_

#if defined(__aarch64__)
// AdvSIMD, the baseline, and no SVE even where compiler flags would allow it: layouts and tiles
// rely on vectors whose length is known when they are compiled.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_COMPILE_ONLY_STATIC
#else
// Keep AVX-512 (F, BW, CD, DQ, VL), AVX2 (with FMA, F16C, BMI2) and the baseline.
#define HWY_DISABLED_TARGETS                                                      \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | (HWY_AVX3_DL >> 1) | (HWY_AVX3_DL >> 2) | \
   (HWY_AVX3_DL >> 3))
#endif

// GCC before 12.3 miscompiles high halves of integer products in Highway's emulated 128-bit
// vectors, for which Highway falls back to one lane. We need the four lanes and no such product.
#define HWY_BROKEN_EMU128 0

#include <hwy/base.h>
#include <hwy/detect_targets.h>

#include "stretto/base/cpu.h"

#if HWY_ARCH_X86 && defined(HWY_COMPILE_ONLY_STATIC) && !(HWY_STATIC_TARGET & (HWY_AVX2 | HWY_AVX3))
#error "STRETTO_ISAS=native: the compiler flags do not give Highway AVX2 or AVX-512"
#endif

// The instance of `function` that was compiled for `isa`.
#if HWY_TARGETS & HWY_AVX3
#define STRETTO_ISA_AVX512_(function) N_AVX3::function
#else
#define STRETTO_ISA_AVX512_(function) HWY_STATIC_DISPATCH(function)
#endif
#if HWY_TARGETS & HWY_AVX2
#define STRETTO_ISA_AVX2_(function) N_AVX2::function
#else
#define STRETTO_ISA_AVX2_(function) HWY_STATIC_DISPATCH(function)
#endif
// On Arm that is the only one, whose static target is NEON.
#define STRETTO_ISA_SELECT(isa, function)                            \
  ((isa) == ::stretto::Isa::kAvx512 ? &STRETTO_ISA_AVX512_(function) \
   : (isa) == ::stretto::Isa::kAvx2 ? &STRETTO_ISA_AVX2_(function)   \
                                    : &HWY_STATIC_DISPATCH(function))

#endif  // STRETTO_BASE_SIMD_TARGETS_H_
