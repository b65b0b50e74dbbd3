// Writes ONNX models: the inverse of import/onnx, of graphs as importers make them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/pieces.h"
#include "stretto/ir/graph.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::onnx {

// The opset that models are written for. One that has an operator, an attribute or an element type
// which came later is written for the oldest opset that has it.
constexpr int64_t kExportedOpset = 21;

struct ExportOptions {
  // Weights of more bytes than this together go to a file beside the model: protobuf messages end
  // at 2 GiB.
  int64_t most_inline_bytes = int64_t{1} << 30;
  // Where weights begin in that file: readers map it.
  size_t data_alignment = 4096;
  // Inputs and outputs whose dimensions stay open, by name, of a graph that computes what depends
  // on their sizes. Where there are any, the model says nothing of the shapes of other outputs.
  std::map<std::string, ShapeRange> open;
};

// All bytes of large constants are views of the graph's, which has to outlive them.
struct ExportedModel {
  Pieces bytes;       // the ModelProto
  int64_t opset = 0;  // of ONNX's own domain
  // What stands in the file of external data. Empty: all weights are in `bytes`.
  Pieces external;
};

// The model of a graph that no pass has rewritten. Names are the graph's; dimensions are fixed
// but for those of `options.open`.
// `data_file`: the name by which the model finds its external data. Throws Unsupported naming every
// operator that ONNX does not have.
ExportedModel export_graph(const ir::Graph& graph, const std::string& data_file,
                           const ExportOptions& options = {});

struct ExportSummary {
  int64_t opset = 0;
  std::vector<std::string> files;  // that were written, the model last
};

// Writes `path` and, for large weights, `path`.data beside it, each in one step. Throws what
// export_graph() and write_file() throw.
ExportSummary write_onnx(const ir::Graph& graph, const std::string& path,
                         const ExportOptions& options = {});

}  // namespace stretto::onnx
