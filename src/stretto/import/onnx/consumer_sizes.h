// Sizes that a file leaves open, although the weights of the first operators allow one only: the
// channels of a picture in front of a convolution, the width of rows in front of a product.
#pragma once

#include <string_view>

#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/reader.h"
#include "stretto/import/onnx/tensor.h"

namespace stretto::onnx {

// Sets them in `input`, which has a shape. Its dimensions keep their names.
void fix_by_consumers(const Source& source, const WireGraph& graph, TensorReader& tensors,
                      DeclaredInput& input);

}  // namespace stretto::onnx
