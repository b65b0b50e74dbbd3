#include "stretto/export/onnx/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <span>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/export/onnx/messages.h"
#include "stretto/export/onnx/nodes.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/ir/operator.h"
#include "stretto/tensor/layout.h"

namespace stretto::onnx {
namespace {

// Smaller tensors stay in the model: shapes and the like, which tools want to read there.
constexpr int64_t kLeastExternalBytes = 1024;

class Exporter {
 public:
  Exporter(const ir::Graph& graph, std::string data_file, const ExportOptions& options)
      : graph_(graph), data_file_(std::move(data_file)), options_(options) {}

  ExportedModel run() {
    translate_nodes();
    find_constants();
    Pieces graph = graph_message();
    std::string head, tail;
    protozero::pbf_writer model(head), rest(tail);
    model.add_int64(model_field::kIrVersion, ir_version_of(result_.opset));
    model.add_string(model_field::kProducerName, "stretto");
    model.add_string(model_field::kProducerVersion, STRETTO_VERSION);
    rest.add_message(model_field::kOpsetImport, opset_message("", result_.opset));
    for (std::string_view domain : domains_) {
      rest.add_message(model_field::kOpsetImport,
                       opset_message(domain, domain_version(domain, result_.opset)));
    }
    result_.bytes.add(head + part_head(model_field::kGraph, graph.size()));
    result_.bytes.add(std::move(graph));
    result_.bytes.add(std::move(tail));
    return std::move(result_);
  }

 private:
  void translate_nodes() {
    result_.opset = kExportedOpset;
    for (ir::ValueId id : graph_.inputs) {
      result_.opset = std::max(result_.opset, opset_of(graph_.value(id).dtype));
    }
    std::map<std::string_view, std::pair<int, std::string>> missing;  // how many, the first one
    for (const ir::Node& node : graph_.nodes) {
      check_interrupt();
      const auto exported = exported_node(graph_, node);
      if (!exported) {
        auto& [count, first] = missing[node.op->name];
        if (count++ == 0) first = node.name;
        continue;
      }
      if (!exported->domain.empty()) domains_.insert(exported->domain);
      result_.opset = std::max(result_.opset, exported->opset);
      nodes_.push_back(*exported);
    }
    if (missing.empty()) return;
    std::vector<std::string> lines;
    for (const auto& [op, found] : missing) {
      lines.push_back(fmt::format("\n  {} ({} {}, the first is \"{}\")", op, found.first,
                                  found.first == 1 ? "node" : "nodes", found.second));
    }
    throw_unsupported(
        "{}: ONNX has no such operators, so the model cannot be written; export the graph before "
        "passes have rewritten it:{}",
        graph_.name, fmt::join(lines, ""));
  }

  // Constants that no node makes, and that some node or output uses.
  void find_constants() {
    std::vector<bool> made(graph_.values.size()), used(graph_.values.size());
    for (const ir::Node& node : graph_.nodes) {
      for (ir::ValueId id : node.outputs) {
        if (id != ir::kNone) made[id] = true;
      }
      for (ir::ValueId id : node.inputs) {
        if (id != ir::kNone) used[id] = true;
      }
    }
    for (ir::ValueId id : graph_.outputs) used[id] = true;
    int64_t bytes = 0;
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      const ir::Value& value = graph_.values[id];
      if (!value.is_constant() || made[id] || !used[id]) continue;
      constants_.push_back(&value);
      bytes += static_cast<int64_t>(value.constant.bytes());
    }
    external_ = bytes > options_.most_inline_bytes;
  }

  std::string name_of(ir::ValueId id) const {
    return id == ir::kNone ? std::string() : graph_.value(id).name;
  }

  // Of all outputs of node n, with names for those that only ONNX wants.
  std::vector<std::string> output_names(size_t n) const {
    const ir::Node& node = graph_.nodes[n];
    const size_t least = nodes_[n].least_outputs;
    std::vector<std::string> names;
    for (ir::ValueId id : node.outputs) names.push_back(name_of(id));
    names.resize(std::max(names.size(), least));
    for (size_t i = 0; i < least; ++i) {
      if (!names[i].empty()) continue;
      names[i] = fmt::format("{}.{}.unread", n, i);
      const auto taken = [&](const ir::Value& value) { return value.name == names[i]; };
      while (std::ranges::any_of(graph_.values, taken)) names[i] += '_';
    }
    return names;
  }

  // The tensor's elements as ONNX stores them.
  static Pieces raw_pieces(const Tensor& tensor) {
    std::string packed;
    const std::string_view raw = raw_bytes(tensor, packed);
    Pieces pieces;
    if (packed.empty()) {
      pieces.add_view(std::as_bytes(std::span(raw)));
    } else {
      pieces.add(std::move(packed));
    }
    return pieces;
  }

  // Goes on with `pieces` behind what is in `text`.
  void add_constant(const ir::Value& value, std::string& text, Pieces& pieces) {
    const Tensor& tensor = value.constant;
    protozero::pbf_writer w(text);
    if (static_cast<int64_t>(tensor.bytes()) < kLeastExternalBytes) {
      w.add_message(graph_field::kInitializer, tensor_message(value.name, tensor));
      return;
    }
    Pieces raw = raw_pieces(tensor);
    if (external_) {
      result_.external.align(options_.data_alignment);
      const ExternalPlace place{data_file_, static_cast<int64_t>(result_.external.size()),
                                static_cast<int64_t>(raw.size())};
      result_.external.add(std::move(raw));
      w.add_message(graph_field::kInitializer, external_tensor_message(value.name, tensor, place));
      return;
    }
    const std::string before = tensor_message_before(value.name, tensor, raw.size());
    text += part_head(graph_field::kInitializer, before.size() + raw.size()) + before;
    pieces.add(std::exchange(text, {}));
    pieces.add(std::move(raw));
  }

  Pieces graph_message() {
    Pieces pieces;
    std::string data;
    protozero::pbf_writer w(data);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = graph_.nodes[n];
      std::vector<std::string> inputs;
      for (ir::ValueId id : node.inputs) inputs.push_back(name_of(id));
      w.add_message(graph_field::kNode,
                    node_message(nodes_[n], node.name, inputs, output_names(n)));
    }
    w.add_string(graph_field::kName, graph_.name.empty() ? "graph" : graph_.name);
    for (const ir::Value* value : constants_) {
      check_interrupt();
      add_constant(*value, data, pieces);
    }
    for (ir::ValueId id : graph_.inputs) {
      const ir::Value& value = graph_.value(id);
      const auto open = options_.open.find(value.name);
      const ShapeRange shape =
          open == options_.open.end() ? fixed_range(*value.shape) : open->second;
      w.add_message(graph_field::kInput, value_info_message(value.name, value.dtype, &shape));
    }
    for (ir::ValueId id : graph_.outputs) {
      const ir::Value& value = graph_.value(id);
      const auto open = options_.open.find(value.name);
      const bool known = open != options_.open.end() || options_.open.empty();
      const ShapeRange shape =
          open == options_.open.end() ? fixed_range(*value.shape) : open->second;
      w.add_message(graph_field::kOutput,
                    value_info_message(value.name, value.dtype, known ? &shape : nullptr));
    }
    pieces.add(std::move(data));
    return pieces;
  }

  const ir::Graph& graph_;
  const std::string data_file_;
  const ExportOptions options_;
  ExportedModel result_;
  std::vector<ExportedNode> nodes_;
  std::set<std::string_view> domains_;
  std::vector<const ir::Value*> constants_;
  bool external_ = false;
};

}  // namespace

ExportedModel export_graph(const ir::Graph& graph, const std::string& data_file,
                           const ExportOptions& options) {
  return Exporter(graph, data_file, options).run();
}

ExportSummary write_onnx(const ir::Graph& graph, const std::string& path,
                         const ExportOptions& options) {
  check_writable(path);
  const std::string data_path = path + ".data";
  const std::string data_file = std::filesystem::path(data_path).filename().string();
  const ExportedModel model = export_graph(graph, data_file, options);
  ExportSummary summary{.opset = model.opset};
  if (model.external.size() > 0) {
    // First, so that the model never names data that is not there.
    write_file(data_path, model.external.views());
    summary.files.push_back(data_path);
  }
  write_file(path, model.bytes.views());
  summary.files.push_back(path);
  return summary;
}

}  // namespace stretto::onnx
