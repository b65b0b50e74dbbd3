// A run of a staged model: from stage to stage, and the steps between pieces that have no bodies.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "stretto/base/interrupt.h"
#include "stretto/ir/interpreter.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/staged_parts.h"

namespace stretto::runtime {

using onnx::Body;
using onnx::Meaning;

std::vector<AnyValue> Staged::Run::body(const Body& body, Environment& environment) {
  const auto no_maker = [&](std::string_view name) {
    throw_invalid("{}: \"{}\" is an output, and nothing in the model makes it", body.source().name,
                  name);
  };
  std::vector<std::shared_ptr<Stage>> done;  // whose `next` is in use
  for (Next* next = &staged.root_of(body); next != nullptr; next = done.back()->next.get()) {
    check_interrupt();
    std::shared_ptr<Stage> stage = staged.find(*next, environment);
    if (!stage) {
      const std::lock_guard lock(staged.source_->mutex);
      stage = staged.find(*next, environment);  // made while this one waited
      if (!stage) stage = staged.make(body, *next, environment);
    }
    for (const auto& [name, value] : stage->constants) environment.own[name] = {value, true};
    for (const auto& [name, older] : stage->same) {
      const Entry* entry = environment.find(older);
      environment.own[name] = Entry(*entry);
    }
    if (stage->piece) piece(*stage, environment);
    for (const Step& one : stage->steps) step(one, body, environment);
    for (std::string_view name : stage->bound) {
      const Entry* entry = environment.find(name);
      if (entry != nullptr) environment.own[name] = {entry->value, true};
    }
    for (std::string_view name : stage->dead) environment.own.erase(name);
    done.push_back(std::move(stage));
  }
  std::vector<AnyValue> outputs;
  for (std::string_view name : body.outputs()) {
    const Entry* entry = environment.find(name);
    if (entry == nullptr) no_maker(name);
    outputs.push_back(entry->value);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const onnx::WireInput& declared = body.output_types()[i];
    if (!declared.is_tensor || declared.type == onnx::DataType::kUndefined) continue;
    const bool text = declared.type == onnx::DataType::kString;
    const bool right =
        text ? outputs[i].is_strings()
             : outputs[i].is_tensor() &&
                   outputs[i].tensor().dtype() == onnx::element_type(body.source(), declared.type,
                                                                     "output", declared.position);
    if (right) continue;
    throw_invalid("{}: output \"{}\" is {}, and the file says that it is of another type",
                  body.source().name, declared.name, outputs[i].kind());
  }
  return outputs;
}

void Staged::Run::piece(const Stage& stage, Environment& environment) {
  const StagePiece& piece = *stage.piece;
  std::vector<Tensor> inputs;
  for (std::string_view name : stage.inputs) {
    const Entry* entry = environment.find(name);
    STRETTO_CHECK(entry != nullptr, "a piece needs {}, which is not there", name);
    inputs.push_back(entry->value.tensor());
  }
  std::vector<Tensor> results;
  if (observer != nullptr && observer->piece) observer->piece(stage.piece, inputs);
  if (staged.options_.reference) {
    ThreadTeam team(1);
    results = ir::interpret(*piece.graph, inputs, {.float64 = true, .team = &team});
  } else {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Tensor& tensor : inputs) from.push_back(tensor.data());
    for (const TensorSpec& spec : piece.program->outputs) {
      results.emplace_back(spec.dtype, spec.shape);
      to.push_back(results.back().mutable_data());
    }
    ExecutorPool::Lease(*piece.pool).run(from, to);
  }
  for (const auto& [name, place] : stage.outputs) environment.own[name] = {results[place], false};
}

AnyValue Staged::Run::input(const Body::Node& node, size_t i,
                            const Environment& environment) const {
  if (i >= node.wire.inputs.size() || node.wire.inputs[i].empty()) return {};
  const Entry* entry = environment.find(node.wire.inputs[i]);
  if (entry == nullptr) {
    throw_invalid("{} needs \"{}\", which nothing in the model makes",
                  node_label(*environment.body, node), node.wire.inputs[i]);
  }
  return entry->value;
}

std::vector<AnyValue> Staged::Run::inputs(const Body::Node& node,
                                          const Environment& environment) const {
  std::vector<AnyValue> all;
  for (size_t i = 0; i < node.wire.inputs.size(); ++i) all.push_back(input(node, i, environment));
  return all;
}

void Staged::Run::step(const Step& step, const Body& body, Environment& environment) {
  check_interrupt();
  const Body::Node& node = body.nodes()[step.node];
  if (observer != nullptr && observer->step) {
    observer->step(node.wire.op, node.wire.name.empty() && !node.wire.outputs.empty()
                                     ? node.wire.outputs[0]
                                     : node.wire.name);
  }
  using Kind = Step::Kind;
  std::vector<AnyValue> outputs = step.kind == Kind::kHost   ? host(step, body, environment)
                                  : step.kind == Kind::kIf   ? branch(step, body, environment)
                                  : step.kind == Kind::kLoop ? loop(step, body, environment)
                                  : step.kind == Kind::kScan ? scan(step, body, environment)
                                  : step.kind == Kind::kSequenceMap
                                      ? sequence_map(step, body, environment)
                                  : step.kind == Kind::kCall ? call(step, body, environment)
                                                             : reference(step, body, environment);
  const auto& names = node.wire.outputs;
  if (outputs.size() < names.size()) {
    throw_invalid("{}: {}: {} outputs are wanted, and {} made", body.source().name,
                  node_label(body, node), names.size(), outputs.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) environment.own[names[i]] = {std::move(outputs[i]), false};
  }
}

std::vector<AnyValue> Staged::Run::host(const Step& step, const Body& body,
                                        const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  ir::HostCall call{
      .op = std::string(node.wire.op),
      .name = std::string(node.wire.name),
      .attributes = step.attributes,
      .inputs = inputs(node, env),
      .outputs = std::vector<AnyValue>(std::max<size_t>(1, node.wire.outputs.size()))};
  if (call.name.empty() && !node.wire.outputs.empty()) call.name = node.wire.outputs[0];
  step.host->run(call);
  return std::move(call.outputs);
}

// The node alone, with inputs that are all known.
std::vector<AnyValue> Staged::Run::evaluate(
    const Step& step, const Body& body,
    const std::function<const AnyValue*(std::string_view)>& values) {
  const Body::Node& node = body.nodes()[step.node];
  onnx::Piece piece;
  {
    const std::lock_guard lock(staged.source_->mutex);
    const size_t nodes[] = {step.node};
    piece = body.single(nodes, [&](std::string_view name) {
      Meaning m;
      const AnyValue* value = values(name);
      if (value == nullptr) return m;
      m.kind = value->is_none()     ? Meaning::Kind::kAbsent
               : value->is_tensor() ? Meaning::Kind::kConstant
                                    : Meaning::Kind::kOther;
      if (value->is_tensor()) m.constant = value->tensor();
      return m;
    });
  }
  if (!piece.ready.empty() || !piece.later.empty()) {
    throw_unsupported("{}: {} is not supported on such values", body.source().name,
                      node_label(body, node));
  }
  check_memory(piece.model.graph);
  const std::vector<Tensor> results = ir::interpret(piece.model.graph, {}, {.float64 = false});
  std::vector<AnyValue> outputs(node.wire.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& [name, place] : piece.outputs) {
      if (name == node.wire.outputs[i]) outputs[i] = results[place];
    }
    for (const auto& [name, value] : piece.constants) {
      if (name == node.wire.outputs[i]) outputs[i] = value;
    }
  }
  return outputs;
}

std::vector<AnyValue> Staged::Run::reference(const Step& step, const Body& body,
                                             const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  if (ir::works_on_strings(node.wire.domain, node.wire.op)) {
    for (size_t i = 0; i < node.wire.inputs.size(); ++i) {
      if (input(node, i, env).is_strings()) return on_strings(step, body, env);
    }
  }
  return evaluate(step, body, [&](std::string_view name) -> const AnyValue* {
    const Entry* entry = env.find(name);
    return entry == nullptr ? nullptr : &entry->value;
  });
}

// Strings stand for their places in a sorted list, and results of that type for strings again.
std::vector<AnyValue> Staged::Run::on_strings(const Step& step, const Body& body,
                                              const Environment& env) {
  const Body::Node& node = body.nodes()[step.node];
  std::vector<std::string> list;
  for (size_t i = 0; i < node.wire.inputs.size(); ++i) {
    const AnyValue value = input(node, i, env);
    if (!value.is_strings()) continue;
    list.insert(list.end(), value.strings().values.begin(), value.strings().values.end());
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  std::map<std::string_view, AnyValue> places;
  for (size_t i = 0; i < node.wire.inputs.size(); ++i) {
    if (node.wire.inputs[i].empty()) continue;
    AnyValue value = input(node, i, env);
    if (value.is_strings()) {
      const Strings& strings = value.strings();
      Tensor tensor(DType::kUInt64, strings.shape);
      auto* to = static_cast<uint64_t*>(tensor.mutable_data());
      for (const std::string& text : strings.values) {
        *to++ =
            static_cast<uint64_t>(std::lower_bound(list.begin(), list.end(), text) - list.begin());
      }
      value = tensor;
    }
    places.emplace(node.wire.inputs[i], std::move(value));
  }
  std::vector<AnyValue> outputs =
      evaluate(step, body, [&](std::string_view name) -> const AnyValue* {
        const auto at = places.find(name);
        return at == places.end() ? nullptr : &at->second;
      });
  for (AnyValue& output : outputs) {
    if (!output.is_tensor() || output.tensor().dtype() != DType::kUInt64) continue;
    Strings strings{.shape = output.tensor().shape(), .values = {}};
    for (uint64_t place : output.tensor().values<uint64_t>()) {
      strings.values.push_back(place < list.size() ? list[place] : std::string());
    }
    output = std::move(strings);
  }
  return outputs;
}

}  // namespace stretto::runtime
