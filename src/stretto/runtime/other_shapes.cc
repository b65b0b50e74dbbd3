#include "stretto/runtime/other_shapes.h"

#include <map>
#include <span>

#include "stretto/base/error.h"
#include "stretto/export/onnx/export.h"
#include "stretto/runtime/lengths.h"
#include "stretto/runtime/model_state.h"

namespace stretto::runtime {
namespace {

// Of a graph that has no file: copies of it.
ShapeSource copies_of(ImportedModel imported) {
  auto kept = std::make_shared<const ImportedModel>(std::move(imported));
  ShapeSource source;
  source.write = [kept] { return onnx::export_to_bytes(kept->graph); };
  source.import = [kept](const std::map<std::string, Shape>&) { return *kept; };
  return source;
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

Model with_open_graph(const Model& model, const ir::Graph& graph, std::vector<OpenInput> inputs,
                      const std::vector<ShapeTrial>& trials) {
  const Model::State& first = model.state();
  STRETTO_CHECK(first.siblings != nullptr, "{} was not optimised for other shapes", first.name);
  std::map<std::string, ShapeRange> open;
  for (const OpenInput& input : inputs) open[input.name] = input.shape;
  const auto bytes = std::make_shared<const std::string>(onnx::export_to_bytes(graph, open));
  std::shared_ptr<onnx::Reader> reader = onnx::Reader::of_memory(
      std::as_bytes(std::span(bytes->data(), bytes->size())), bytes, first.name + ".onnx");
  auto state = std::make_shared<Model::State>(first);
  state->by_shape = std::make_shared<ProgramsByShape>(
      std::move(inputs), onnx_source(reader), first.by_shape ? first.by_shape->lengths() : "",
      first.siblings);
  for (const ShapeTrial& trial : trials) {
    state->by_shape->check(trial.inputs);
    const ir::Graph made = state->by_shape->import(trial.inputs).graph;
    std::vector<Shape> outputs;
    for (ir::ValueId id : made.outputs) outputs.push_back(*made.value(id).shape);
    STRETTO_CHECK(outputs == trial.outputs,
                  "{}: the graph for all shapes has outputs of other shapes than the module; "
                  "optimise it with fixed shapes to save it",
                  first.name);
  }
  return Model(std::move(state));
}

}  // namespace stretto::runtime
