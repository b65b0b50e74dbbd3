// The computation behind NonMaxSuppression, for the operator and for runs in stages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto::ir {

// Batch, class and box of each box that is kept, one behind the other: by batch and class, those
// with higher scores first, of equal ones that with the smaller index. Scores that are NaN are
// left out. `inputs` are those of ONNX's operator, undefined where absent. Throws InvalidArgument
// naming an input whose shape is wrong.
//
// Boxes and scores of float32 are computed with in float32, in the order of ONNX Runtime, so that
// the same boxes overlap too much; others in double.
std::vector<int64_t> non_max_suppression(std::span<const Tensor> inputs, bool by_centre);

}  // namespace stretto::ir
