// Models as ONNX, the way artefacts hold those that are imported again for every shape: the weights
// lie beside the message, which protobuf ends at 2 GiB, and are aligned there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/pieces.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/graph.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::runtime {

struct StoredModel {
  Pieces onnx;
  std::vector<onnx::ExternalData> data;
};

// As the reader has it; views of what it keeps. Throws FormatError where a file with weights is
// gone.
StoredModel stored_model(onnx::Reader& reader);

// Of a graph that no pass has rewritten, whose constants are not copied. `open`: as for
// onnx::ExportOptions. Throws Unsupported naming every operator that ONNX does not have.
StoredModel stored_model(const ir::Graph& graph,
                         const std::map<std::string, ShapeRange>& open = {});

// The reader of a graph written so, which keeps the graph's constants and has its name.
std::unique_ptr<onnx::Reader> read_again(const ir::Graph& graph,
                                         const std::map<std::string, ShapeRange>& open,
                                         const std::string& name);

}  // namespace stretto::runtime
