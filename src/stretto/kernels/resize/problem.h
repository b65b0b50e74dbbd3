// Resampling of images: nearest, bilinear and bicubic (Keys 1981), with the coordinate conventions
// of ONNX's Resize.
#pragma once

#include <span>

#include "stretto/kernels/family.h"

namespace stretto::kernels {

enum class Resampling : uint8_t { kNearest, kLinear, kCubic };

// Where output position o, of `out` positions, lies in an input of `in` positions at `scale` = out
// / in.
enum class Coordinates : uint8_t {
  kHalfPixel,           // (o + 1/2) / scale - 1/2
  kPytorchHalfPixel,    // the same, but 0 when out is 1
  kAlignCorners,        // o (in - 1) / (out - 1)
  kAsymmetric,          // o / scale
  kHalfPixelSymmetric,  // half_pixel about the centre of the part of the input that is used
};
enum class NearestRounding : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

// Input: x [n, c, h, w]. Output: y [n, c, out_h, out_w], both in `layout` and of type `dtype`:
// float32, or uint8 or int8 (nearest and linear in the plain layout only). Positions beyond the
// border repeat it, or (exclude_outside, cubic) weigh nothing. Bytes are rounded towards zero, as
// ONNX Runtime rounds them.
struct ResizeProblem {
  Target target{};
  int64_t n = 1, c = 1, h = 1, w = 1, out_h = 1, out_w = 1;
  double scale_h = 1, scale_w = 1;
  float cubic_a = -0.75f;
  Resampling mode = Resampling::kLinear;
  Coordinates coordinates = Coordinates::kHalfPixel;
  NearestRounding rounding = NearestRounding::kRoundPreferFloor;
  Layout layout = Layout::kPlain;
  uint8_t exclude_outside = 0;
  DType dtype = DType::kFloat32;
  uint8_t reserved[6] = {};

  int taps() const {
    return mode == Resampling::kNearest ? 1 : mode == Resampling::kLinear ? 2 : 4;
  }
};

// Linear weights of bytes are multiples of 2^-kByteWeightBits, so that sums of their products are
// exact in any order, and equal neighbours keep their value.
constexpr int kByteWeightBits = 22;

// y[o] = sum_k weight[k] x[index[k]] along one axis; the first p.taps() count.
struct ResizeTaps {
  int64_t index[4];
  double weight[4];
};
ResizeTaps resize_taps(const ResizeProblem& p, int64_t o, int64_t in, int64_t out, double scale);

std::string problem_key(const ResizeProblem& p);
Signature problem_signature(const ResizeProblem& p);
double problem_flops(const ResizeProblem& p);

extern const Family kResize;

}  // namespace stretto::kernels
