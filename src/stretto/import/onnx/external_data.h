// What a model has in other files, to be stored beside it.
#pragma once

#include <vector>

#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/reader.h"
#include "stretto/import/onnx/tensor.h"

namespace stretto::onnx {

// The parts of files that tensors of the model name, each byte once, in the order of locations and
// offsets. Views of files that `tensors` keeps. Throws FormatError.
std::vector<ExternalData> read_external_data(const Source& source, const WireModel& model,
                                             TensorReader& tensors);

}  // namespace stretto::onnx
