#include "stretto/runtime/other_shapes.h"

#include <algorithm>
#include <map>

#include "stretto/base/error.h"
#include "stretto/runtime/lengths.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/stored_model.h"
#include "stretto/tensor/compare.h"
#include "stretto/tensor/identity.h"

namespace stretto::runtime {
namespace {

// Of a graph that has no file: copies of it.
ShapeSource copies_of(ImportedModel imported) {
  auto kept = std::make_shared<const ImportedModel>(std::move(imported));
  ShapeSource source;
  source.stored = [kept] { return stored_model(kept->graph); };
  source.import = [kept](const std::map<std::string, Shape>&) { return *kept; };
  return source;
}

// In names of what depends on nothing but open sizes, and of lists of sizes (python/stretto/aten).
bool is_made_of_sizes(std::string_view name) { return name.find("of_sizes") != name.npos; }
bool is_list_of_sizes(std::string_view name) { return name.find(".sizes") != name.npos; }

// Packed weights are found by the names of nodes and constants, so what they stand for must be the
// same in both graphs.
void check_weights(const ir::Graph& made, const ir::Graph& first, const std::string& name) {
  std::map<std::string_view, const ir::Node*> nodes;
  std::map<std::string_view, const Tensor*> constants;
  for (const ir::Node& node : first.nodes) nodes[node.name] = &node;
  for (const ir::Value& value : first.values) {
    if (value.is_constant()) constants[value.name] = &value.constant;
  }
  const auto expect = [&](const std::string& what, const ir::Value& value, const Tensor& theirs) {
    const Tensor& ours = value.constant;
    if (identity(ours) == identity(theirs) || content_name(ours) == content_name(theirs)) return;
    // Tables that depend on sizes were computed by the module's framework, and here by the engine.
    constexpr double kRounding = 1e-5;
    if (is_made_of_sizes(value.name) && is_float(value.dtype) && ours.shape() == theirs.shape() &&
        compare(ours, theirs).relative_to_max < kRounding) {
      return;
    }
    throw_unsupported(
        "{}: the weights of {} are not those that the model was optimised with; optimise it "
        "again",
        name, what);
  };
  for (const ir::Node& node : made.nodes) {
    const auto at = nodes.find(node.name);
    if (at == nodes.end()) continue;
    const ir::Node& other = *at->second;
    for (size_t i = 0; i < std::min(node.inputs.size(), other.inputs.size()); ++i) {
      if (node.inputs[i] == ir::kNone || other.inputs[i] == ir::kNone) continue;
      const ir::Value& ours = made.value(node.inputs[i]);
      const ir::Value& theirs = first.value(other.inputs[i]);
      if (!is_float(ours.dtype) || ours.dtype != theirs.dtype) continue;
      if (!ours.is_constant() || !theirs.is_constant()) continue;
      expect(node.name, ours, theirs.constant);
    }
  }
  for (const ir::Value& value : made.values) {
    const auto at = constants.find(value.name);
    if (at == constants.end() || !value.is_constant() || is_list_of_sizes(value.name)) continue;
    expect(value.name, value, *at->second);
  }
}

void try_shapes(const ProgramsByShape& programs, const ShapeTrial& trial, const std::string& name) {
  std::vector<Shape> outputs;
  try {
    programs.check(trial.inputs);
    const ir::Graph made = programs.import(trial.inputs).graph;
    for (ir::ValueId id : made.outputs) outputs.push_back(*made.value(id).shape);
  } catch (const InvalidArgument& error) {
    throw_unsupported("{}: the graph for all shapes does not take some of them: {}", name,
                      error.what());
  }
  if (outputs == trial.outputs) return;
  throw_unsupported("{}: the graph for all shapes has outputs of other shapes than the module",
                    name);
}

}  // namespace

std::shared_ptr<ProgramsByShape> by_tokens(ImportedModel& imported, const std::string& lengths,
                                           std::shared_ptr<Siblings> siblings) {
  if (!siblings) siblings = std::make_shared<Siblings>();
  siblings->own(imported);
  std::vector<OpenInput> inputs;
  const auto specs = input_specs(imported.graph);
  find_mask(lengths, specs);
  for (const TensorSpec& spec : specs) inputs.push_back({spec.name, fixed_range(spec.shape)});
  return std::make_shared<ProgramsByShape>(std::move(inputs), copies_of(imported), lengths,
                                           std::move(siblings));
}

Model with_other_shapes(const Model& model, ImportedModel imported) {
  const Model::State& first = model.state();
  STRETTO_CHECK(first.siblings != nullptr, "{} was not optimised for other shapes", first.name);
  auto state = std::make_shared<Model::State>();
  state->name = first.name;
  if (first.by_shape && !first.by_shape->lengths().empty()) {
    state->by_shape = by_tokens(imported, first.by_shape->lengths(), first.siblings);
  }
  state->program = first.siblings->compile(std::move(imported), first.program->target);
  state->siblings = first.siblings;
  return Model(std::move(state));
}

Model with_open_graph(const Model& model, ImportedModel imported, std::vector<OpenInput> inputs,
                      const std::vector<ShapeTrial>& trials) {
  const Model::State& first = model.state();
  STRETTO_CHECK(first.siblings != nullptr, "{} was not optimised for other shapes", first.name);
  std::map<std::string, ShapeRange> open;
  for (const OpenInput& input : inputs) open[input.name] = input.shape;
  // With the weights that the other programs have.
  if (imported.borrows) first.siblings->own(imported);
  ShapeSource source = onnx_source(read_again(imported.graph, open, first.name + ".onnx"));
  auto state = std::make_shared<Model::State>(first);
  state->by_shape = std::make_shared<ProgramsByShape>(
      std::move(inputs), std::move(source), first.by_shape ? first.by_shape->lengths() : "",
      first.siblings);
  std::vector<Shape> shapes;
  for (const TensorSpec& spec : first.program->inputs) shapes.push_back(spec.shape);
  check_weights(first.siblings->rewritten(state->by_shape->import(shapes)), *first.graph,
                first.name);
  for (const ShapeTrial& trial : trials) try_shapes(*state->by_shape, trial, first.name);
  return Model(std::move(state));
}

}  // namespace stretto::runtime
