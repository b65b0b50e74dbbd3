#include "stretto/runtime/stored_model.h"

#include <span>
#include <utility>

#include "stretto/export/onnx/export.h"
#include "stretto/tensor/layout.h"

namespace stretto::runtime {
namespace {

// The name of what is no file.
constexpr const char* kLocation = "weights";

}  // namespace

StoredModel stored_model(onnx::Reader& reader) {
  StoredModel model;
  model.onnx.add_view(reader.bytes());
  model.data = reader.external_data();
  return model;
}

StoredModel stored_model(const ir::Graph& graph, const std::map<std::string, ShapeRange>& open) {
  onnx::ExportedModel exported = onnx::export_graph(
      graph, kLocation, {.most_inline_bytes = 0, .data_alignment = kAlignment, .open = open});
  StoredModel model{.onnx = std::move(exported.bytes), .data = {}};
  if (exported.external.size() > 0) {
    model.data.push_back(
        {.location = kLocation, .offset = 0, .bytes = std::move(exported.external)});
  }
  return model;
}

std::unique_ptr<onnx::Reader> read_again(const ir::Graph& graph,
                                         const std::map<std::string, ShapeRange>& open,
                                         const std::string& name) {
  struct Kept {
    ir::Graph graph;
    std::string message;
  };
  const auto kept = std::make_shared<Kept>();
  kept->graph = graph;
  StoredModel model = stored_model(kept->graph, open);
  kept->message = model.onnx.joined();
  return onnx::Reader::of_memory(std::as_bytes(std::span(kept->message)), kept, name,
                                 std::move(model.data));
}

}  // namespace stretto::runtime
