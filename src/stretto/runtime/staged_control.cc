// If, Loop, Scan, SequenceMap and calls of functions, whose bodies run in stages themselves.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "stretto/base/interrupt.h"
#include "stretto/runtime/staged_parts.h"

namespace stretto::runtime {
namespace {

using onnx::Body;
using onnx::Meaning;

constexpr int kMaxDepth = 64;  // of bodies within bodies

int64_t one_integer(const AnyValue& value, const std::string& label, std::string_view what) {
  if (!value.is_tensor() || value.tensor().count() != 1 || is_float(value.tensor().dtype())) {
    throw_invalid("{}: {}: expected one value, got {}", label, what, value.kind());
  }
  return value.tensor().as_int64s()[0];
}

}  // namespace

const Body& Staged::Run::graph_of(const Step& step, const Body& body, std::string_view name) {
  const Body::Node& node = body.nodes()[step.node];
  const std::lock_guard lock(staged.source_->mutex);
  if (const Body* graph = body.graph(step.node, name)) return *graph;
  throw_invalid("{}: {}: attribute {} is missing", body.source().name, node_label(body, node),
                name);
}

// Runs a body with these values as its inputs.
std::vector<AnyValue> Staged::Run::inner(const Body& graph, const Environment* outer,
                                         std::vector<AnyValue> values) {
  if (graph.inputs().size() != values.size()) {
    throw_invalid("{}: a graph has {} inputs, and gets {}", graph.source().name,
                  graph.inputs().size(), values.size());
  }
  if (depth >= kMaxDepth) {
    throw_unsupported("{}: graphs are nested too deeply", graph.source().name);
  }
  Environment environment{.outer = outer, .body = &graph, .own = {}};
  for (size_t i = 0; i < values.size(); ++i) {
    environment.own[graph.inputs()[i].name] = {std::move(values[i]), false};
  }
  ++depth;
  std::vector<AnyValue> outputs = body(graph, environment);
  --depth;
  return outputs;
}

std::vector<AnyValue> Staged::Run::branch(const Step& step, const Body& body,
                                          const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  const std::string label = node_label(body, node);
  const bool truth = one_integer(input(node, 0, env), label, "the condition") != 0;
  const Body& graph = graph_of(step, body, truth ? "then_branch" : "else_branch");
  if (graph.outputs().size() != node.wire.outputs.size()) {
    throw_invalid("{}: {}: a branch has other outputs than the node", body.source().name, label);
  }
  return inner(graph, &env, {});
}

std::vector<AnyValue> Staged::Run::call(const Step& step, const Body& body,
                                        const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  const Body& function = [&]() -> const Body& {
    const std::lock_guard lock(staged.source_->mutex);
    return body.function(step.node);
  }();
  std::vector<AnyValue> values = inputs(node, env);
  values.resize(function.inputs().size());
  return inner(function, nullptr, std::move(values));
}

// What a stack holds when no turn was made: no rows of what the body would make of such values.
AnyValue Staged::Run::no_rows(const Body& graph, size_t output, const Environment& env,
                              const std::vector<AnyValue>& given, int64_t axis,
                              const std::string& label) const {
  const onnx::WireInput& declared = graph.output_types()[output];
  const std::string_view wanted = graph.outputs()[output];
  Environment inside{.outer = &env, .body = &graph, .own = {}};
  for (size_t i = 0; i < given.size() && i < graph.inputs().size(); ++i) {
    inside.own[graph.inputs()[i].name] = {given[i], false};
  }
  std::vector<size_t> nodes(graph.nodes().size());
  std::iota(nodes.begin(), nodes.end(), size_t{0});
  const std::lock_guard lock(staged.source_->mutex);
  const auto meaning = [&](std::string_view name) { return inside.meaning(name); };
  onnx::Meaning found = meaning(wanted);
  const onnx::Piece piece = graph.piece(nodes, meaning);
  for (const auto& [name, older] : piece.same) {
    if (name == wanted) found = meaning(older);
  }
  for (const auto& [name, value] : piece.constants) {
    if (name != wanted || !value.is_tensor()) continue;
    found = {.kind = Meaning::Kind::kTensor,
             .dtype = value.tensor().dtype(),
             .shape = value.tensor().shape()};
  }
  for (const auto& [name, place] : piece.outputs) {
    if (name != wanted) continue;
    const ir::Value& value = piece.model.graph.value(piece.model.graph.outputs[place]);
    found = {.kind = Meaning::Kind::kTensor, .dtype = value.dtype, .shape = *value.shape};
  }
  Shape shape = found.shape;
  DType dtype = found.dtype;
  if (found.kind != Meaning::Kind::kTensor && found.kind != Meaning::Kind::kConstant) {
    // It depends on values. What the file says has to do, with 0 for what it leaves open.
    if (!declared.is_tensor || declared.type == onnx::DataType::kUndefined || !declared.shape) {
      throw_unsupported(
          "{}: no turn was made, so the shape of what it collects is not known; the file has to "
          "declare type and shape of the outputs of the loop's body",
          label);
    }
    dtype = onnx::element_type(graph.source(), declared.type, label, declared.position);
    for (const onnx::WireDimension& d : *declared.shape) {
      shape.push_back(d.value && *d.value >= 0 ? *d.value : 0);
    }
  }
  axis = normalize_axis(axis, static_cast<int64_t>(shape.size()) + 1, label + ": axis");
  shape.insert(shape.begin() + axis, 0);
  return Tensor(dtype, std::move(shape));
}

AnyValue Staged::Run::stacked(const std::vector<AnyValue>& turns, int64_t axis, bool reversed,
                              const std::string& label) {
  std::vector<Tensor> rows;
  for (const AnyValue& turn : turns) {
    if (!turn.is_tensor()) throw_unsupported("{}: it collects {}", label, turn.kind());
    const Tensor& tensor = turn.tensor();
    axis = normalize_axis(axis, tensor.rank() + 1, label + ": axis");
    if (tensor.shape() != turns[0].tensor().shape()) {
      throw_invalid("{}: what it collects is {} in one turn and {} in another", label,
                    turns[0].kind(), turn.kind());
    }
    rows.push_back(ir::with_axis(tensor, axis));
  }
  if (reversed) std::reverse(rows.begin(), rows.end());
  return ir::joined(rows, axis);
}

std::vector<AnyValue> Staged::Run::loop(const Step& step, const Body& body,
                                        const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  const std::string label = node_label(body, node);
  const Body& graph = graph_of(step, body, "body");
  const AnyValue count = input(node, 0, env), condition = input(node, 1, env);
  const int64_t most = count.is_none() ? INT64_MAX : one_integer(count, label, "the trip count");
  bool goes_on = condition.is_none() || one_integer(condition, label, "the condition") != 0;
  std::vector<AnyValue> carried;
  for (size_t i = 2; i < node.wire.inputs.size(); ++i) carried.push_back(input(node, i, env));
  const size_t outputs = graph.outputs().size();
  if (outputs < 1 + carried.size() || outputs - 1 < node.wire.outputs.size()) {
    throw_invalid("{}: {}: its body has too few outputs", body.source().name, label);
  }
  std::vector<std::vector<AnyValue>> stacks(outputs - 1 - carried.size());
  for (int64_t turn = 0; turn < most && goes_on; ++turn) {
    check_interrupt();
    std::vector<AnyValue> given{Tensor::scalar<int64_t>(turn), Tensor::scalar<bool>(true)};
    given.insert(given.end(), carried.begin(), carried.end());
    std::vector<AnyValue> made = inner(graph, &env, std::move(given));
    goes_on = one_integer(made[0], label, "the condition") != 0;
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = std::move(made[1 + i]);
    for (size_t i = 0; i < stacks.size(); ++i) {
      stacks[i].push_back(std::move(made[1 + carried.size() + i]));
    }
  }
  std::vector<AnyValue> unused{Tensor::scalar<int64_t>(0), Tensor::scalar<bool>(true)};
  unused.insert(unused.end(), carried.begin(), carried.end());
  for (size_t i = 0; i < stacks.size() && carried.size() < node.wire.outputs.size(); ++i) {
    carried.push_back(stacks[i].empty()
                          ? no_rows(graph, outputs - stacks.size() + i, env, unused, 0, label)
                          : stacked(stacks[i], 0, false, label));
  }
  return carried;
}

std::vector<AnyValue> Staged::Run::scan(const Step& step, const Body& body,
                                        const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  const std::string label = node_label(body, node);
  if (body.opset() < 9) {
    throw_unsupported(
        "{}: {}: a Scan of opset 8 whose body depends on values is not supported; "
        "convert the model to opset 9 or newer",
        body.source().name, label);
  }
  const Body& graph = graph_of(step, body, "body");
  const size_t all = node.wire.inputs.size();
  const int64_t scanned = step.attributes.integer("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<size_t>(scanned) > all) {
    throw_invalid("{}: num_scan_inputs: expected 1 to all inputs, got {}", label, scanned);
  }
  const size_t states = all - static_cast<size_t>(scanned);
  const size_t outputs = graph.outputs().size();
  if (outputs < states || outputs < node.wire.outputs.size()) {
    throw_invalid("{}: its body has too few outputs", label);
  }
  const auto list = [&](const char* name, size_t count) {
    auto values = step.attributes.integers(name, std::vector<int64_t>(count, 0));
    if (values.size() != count) throw_invalid("{}: {} has another number of values", label, name);
    return values;
  };
  const auto in_axes = list("scan_input_axes", static_cast<size_t>(scanned));
  const auto in_turned = list("scan_input_directions", static_cast<size_t>(scanned));
  const auto out_axes = list("scan_output_axes", outputs - states);
  const auto out_turned = list("scan_output_directions", outputs - states);
  std::vector<AnyValue> carried;
  for (size_t i = 0; i < states; ++i) carried.push_back(input(node, i, env));
  std::vector<Tensor> sources;
  int64_t turns = -1;
  for (size_t i = 0; i < static_cast<size_t>(scanned); ++i) {
    const AnyValue value = input(node, states + i, env);
    if (!value.is_tensor()) {
      throw_invalid("{}: input {}: expected a tensor, got {}", label, states + i, value.kind());
    }
    sources.push_back(value.tensor());
    const int64_t axis = normalize_axis(in_axes[i], sources[i].rank(), label + ": scan_input_axes");
    if (turns >= 0 && turns != sources[i].dim(axis)) {
      throw_invalid("{}: its inputs have different lengths", label);
    }
    turns = sources[i].dim(axis);
  }
  std::vector<std::vector<AnyValue>> stacks(outputs - states);
  for (int64_t turn = 0; turn < turns; ++turn) {
    check_interrupt();
    std::vector<AnyValue> given = carried;
    for (size_t i = 0; i < sources.size(); ++i) {
      const int64_t axis = normalize_axis(in_axes[i], sources[i].rank(), label);
      const int64_t at = in_turned[i] == 0 ? turn : turns - 1 - turn;
      given.push_back(ir::without_axis(ir::part_of(sources[i], axis, at, at + 1), axis));
    }
    std::vector<AnyValue> made = inner(graph, &env, std::move(given));
    for (size_t i = 0; i < states; ++i) carried[i] = std::move(made[i]);
    for (size_t i = 0; i < stacks.size(); ++i) {
      stacks[i].push_back(std::move(made[states + i]));
    }
  }
  std::vector<AnyValue> unused = carried;
  for (size_t i = 0; turns == 0 && i < sources.size(); ++i) {
    Shape shape = sources[i].shape();
    shape.erase(shape.begin() + normalize_axis(in_axes[i], sources[i].rank(), label));
    Tensor zeros(sources[i].dtype(), std::move(shape));
    std::memset(zeros.mutable_data(), 0, zeros.bytes());
    unused.emplace_back(std::move(zeros));
  }
  for (size_t i = 0; i < stacks.size(); ++i) {
    carried.push_back(turns == 0 ? no_rows(graph, states + i, env, unused, out_axes[i], label)
                                 : stacked(stacks[i], out_axes[i], out_turned[i] != 0, label));
  }
  return carried;
}

// The body once per element of the first input; other sequences give their elements as well.
std::vector<AnyValue> Staged::Run::sequence_map(const Step& step, const Body& body,
                                                const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  const std::string label = node_label(body, node);
  const Body& graph = graph_of(step, body, "body");
  const std::vector<AnyValue> given = inputs(node, env);
  if (given.empty() || !given[0].is_sequence()) {
    throw_invalid("{}: input 0: expected a sequence", label);
  }
  const size_t length = given[0].sequence().size();
  std::vector<Sequence> results(graph.outputs().size());
  for (size_t turn = 0; turn < length; ++turn) {
    check_interrupt();
    std::vector<AnyValue> values;
    for (const AnyValue& value : given) {
      if (value.is_sequence() && value.sequence().size() != length) {
        throw_invalid("{}: its sequences have different lengths", label);
      }
      values.push_back(value.is_sequence() ? value.sequence()[turn] : value);
    }
    std::vector<AnyValue> made = inner(graph, &env, std::move(values));
    for (size_t i = 0; i < made.size(); ++i) {
      results[i].push_back(std::move(made[i]));
    }
  }
  return {results.begin(), results.end()};
}

}  // namespace stretto::runtime
