// Shapes of the graph's inputs: what the file fixes, what the caller gives, and a batch of one.
#pragma once

#include <string>
#include <vector>

#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/reader.h"

namespace stretto::onnx {

// The inputs of a graph that have no initialiser, which would make them constants.
std::vector<WireInput> fed_inputs(const WireGraph& graph);

// Whether a dimension may have any size.
bool is_open(const WireDimension& dimension);
// The name of an open dimension if it is one that other dimensions of that name must agree with,
// else nothing: writers also put the same placeholder on dimensions that have nothing in common.
std::string_view symbol_of(const WireDimension& dimension);

struct BoundInput {
  std::string_view name;
  DType dtype;
  Shape shape;
};

// `inputs` without those that have an initialiser. Assumptions are added to `notes`. Throws
// InvalidArgument naming the input, its dimensions and what to say instead.
std::vector<BoundInput> bind_inputs(const Source& source, const std::vector<WireInput>& inputs,
                                    const ImportOptions& options, std::vector<std::string>& notes);

}  // namespace stretto::onnx
