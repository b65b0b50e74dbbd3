// Classifiers of domain ai.onnx.ml whose labels are strings, which no graph can hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/import/onnx/reader.h"

namespace stretto::onnx {

// Every such classifier becomes one whose labels are 0, 1, 2, ... and, behind it, a LabelEncoder
// that makes strings of them. `texts` gets what the new nodes are views of. Throws FormatError.
void split_text_labels(const Source& source, std::vector<WireNode>& nodes, WireTexts& texts);

}  // namespace stretto::onnx
