// Rectangular copies from strided inputs into regions of one output, on a constant background:
// concatenation, slices with steps, constant padding, expansion, splitting.
#pragma once

#include <span>

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Element [i...] of the region, i < extent, comes from inputs[input] at in_offset + sum i *
// in_stride and goes to output element out_offset + i. Strides may be 0 (expansion) or negative.
struct CopyPart {
  static constexpr int kMaxRank = 8;
  int32_t input = 0;
  int32_t reserved = 0;
  int64_t in_offset = 0;
  int64_t extent[kMaxRank] = {}, in_stride[kMaxRank] = {}, out_offset[kMaxRank] = {};
};

// Inputs: `inputs` flat dense tensors of input_elements[i]. Output: y of dims[0, rank). All of one
// type. Parts do not overlap. Where they do not cover y and `fill` is 1, `fill_value` (converted to
// the type) goes everywhere else, and if it is 0, y keeps what it holds there; int64 values beyond
// 2^53 cannot be filled in.
struct CopyRegionProblem {
  static constexpr int kMaxRank = CopyPart::kMaxRank, kMaxParts = 32;

  Target target{};
  int64_t dims[kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1};
  int64_t input_elements[kMaxParts] = {};
  double fill_value = 0;
  int32_t rank = 1, parts = 0, inputs = 0;
  DType dtype = DType::kFloat32;
  uint8_t fill = 0;
  uint8_t reserved[2] = {};
  CopyPart part[kMaxParts] = {};
};

// Axes are in range and non-negative here: the graph's shape inference has checked and normalised
// them. Dimensions are merged where every part allows it. Throws Unsupported when too many inputs
// or dimensions remain.
CopyRegionProblem concat_problem(const Target& target, DType dtype, std::span<const Shape> inputs,
                                 int64_t axis);
// y[i...] = x[start + i * step].
CopyRegionProblem slice_problem(const Target& target, DType dtype, const Shape& input,
                                std::span<const int64_t> start, std::span<const int64_t> step,
                                const Shape& output);
// x at `before` in an output full of `value`; negative paddings crop.
CopyRegionProblem pad_problem(const Target& target, DType dtype, const Shape& input,
                              std::span<const int64_t> before, const Shape& output, double value);
// x at `before` in an output whose other elements repeat those of x: mirrored without repeating the
// border, the border itself, or x again. Throws Unsupported when an axis needs x more than once on
// one side, or too many regions.
enum class Extension : uint8_t { kReflect, kEdge, kWrap };
CopyRegionProblem extend_problem(const Target& target, DType dtype, const Shape& input,
                                 std::span<const int64_t> before, const Shape& output,
                                 Extension mode);
// x at `before` in an output that keeps everything else it holds.
CopyRegionProblem write_problem(const Target& target, DType dtype, const Shape& input,
                                std::span<const int64_t> before, const Shape& output);
// Broadcasts x to `output`.
CopyRegionProblem expand_problem(const Target& target, DType dtype, const Shape& input,
                                 const Shape& output);

std::string problem_key(const CopyRegionProblem& p);
Signature problem_signature(const CopyRegionProblem& p);
double problem_flops(const CopyRegionProblem& p);

extern const Family kCopyRegion;

}  // namespace stretto::kernels
