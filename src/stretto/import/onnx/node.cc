#include "stretto/import/onnx/node.h"

#include <algorithm>
#include <cctype>

#include "stretto/base/error.h"
#include "stretto/import/emitter.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/upgrade.h"

namespace stretto::onnx {
namespace {

std::vector<ir::ValueId> add_inputs(const NodeRequest& request, Emitter& emitter) {
  std::vector<ir::ValueId> ids;
  ir::Graph& graph = emitter.graph();
  for (const NodeInput& input : request.inputs) {
    if (input.constant.defined()) {
      ids.push_back(emitter.add_constant(input.name, input.constant));
    } else if (input.dtype == DType::kUndefined) {
      ids.push_back(ir::kNone);
    } else {
      const ir::ValueId id = emitter.add_value(input.name);
      graph.value(id).dtype = input.dtype;
      graph.value(id).shape = input.shape;
      graph.inputs.push_back(id);
      ids.push_back(id);
    }
  }
  return ids;
}

// The values that are the node's outputs.
std::vector<ir::ValueId> add_node(const NodeRequest& request, Emitter& emitter,
                                  const Source& source) {
  PendingNode pending{
      .emitter = emitter,
      .source = source,
      .opset = request.opset == 0 ? kNewestOpset : request.opset,
      .op = std::string(request.op),
      .name = std::string(request.op),
      .inputs = add_inputs(request, emitter),
      .output_count = static_cast<size_t>(request.outputs),
      .attributes = request.attributes,
  };
  if (request.form != nullptr) request.form(pending);
  if (pending.results.empty()) {
    upgrade(pending);
    const CompositionRow* composition = find_composition(request.domain, pending.op);
    if (composition != nullptr) composition->apply(pending);
  }
  const bool composed = !pending.results.empty();
  for (size_t i = 0; i < pending.output_count; ++i) {
    const bool made = i < pending.results.size() && pending.results[i] != ir::kNone;
    const auto why = pending.dropped_outputs.find(i);
    if (made || (!composed && why == pending.dropped_outputs.end())) continue;
    throw_unsupported("{}", why != pending.dropped_outputs.end()
                                ? why->second
                                : fmt::format("output {} of {} is not supported", i, request.op));
  }
  if (composed) {
    pending.results.resize(pending.output_count);
    return pending.results;
  }
  if (ir::find_operator(pending.op) == nullptr) {
    throw_unsupported("{}: Stretto has no such operator", request.op);
  }
  while (!pending.inputs.empty() && pending.inputs.back() == ir::kNone) pending.inputs.pop_back();
  std::vector<ir::ValueId> outputs;
  for (size_t i = 0; i < pending.output_count; ++i) {
    outputs.push_back(emitter.add_value(fmt::format("output {}", i)));
  }
  emitter.add_node(pending.op, std::move(pending.inputs), outputs, std::move(pending.attributes),
                   request.op);
  return outputs;
}

// Every output is a value of its own, which some node makes.
void add_outputs(Emitter& emitter, const std::vector<ir::ValueId>& results) {
  ir::Graph& graph = emitter.graph();
  for (ir::ValueId id : results) {
    const auto holds = [id](const std::vector<ir::ValueId>& list) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    if (holds(graph.inputs) || holds(graph.outputs) || graph.value(id).is_constant()) {
      const ir::ValueId copy = emitter.add_value(fmt::format("output {}", graph.outputs.size()));
      emitter.add_node("Identity", {id}, {copy}, {}, "Identity");
      id = copy;
    }
    graph.outputs.push_back(id);
  }
}

}  // namespace

// `Conv "Conv": ...` of a node that nobody named is `Conv: ...`.
std::string error_of_operator(std::string text, std::string_view op) {
  for (size_t at = text.find(" \""); at != std::string::npos; at = text.find(" \"", at + 1)) {
    const size_t end = text.find('"', at + 2);
    if (end == std::string::npos) break;
    const std::string_view name = std::string_view(text).substr(at + 2, end - at - 2);
    if (name == op || name.starts_with(std::string(op) + "/")) text.erase(at, end + 1 - at);
  }
  const bool named =
      text.starts_with(op) &&
      (text.size() == op.size() || std::isalnum(static_cast<unsigned char>(text[op.size()])) == 0);
  return named ? text : fmt::format("{}: {}", op, text);
}

ImportedModel import_node(const NodeRequest& request) {
  ImportedModel model{.format = "onnx", .source = std::string(request.op)};
  model.graph.name = request.op;
  const Source source{model.source, {}};
  with_operator(request.op, [&] {
    Emitter emitter(model.graph);
    add_outputs(emitter, add_node(request, emitter, source));
    ir::remove_dead(model.graph);
    ir::verify(model.graph);
  });
  return model;
}

}  // namespace stretto::onnx
