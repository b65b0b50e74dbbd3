#include "stretto/runtime/optimize_staged.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/report.h"
#include "stretto/runtime/staged_trial.h"
#include "stretto/tune/cache_file.h"

namespace stretto::runtime {
namespace {

using nlohmann::json;

// What became of the pieces of the first run.
struct Tuning {
  tune::TuningCache known, used;
  SelectCounts counts;
  std::vector<passes::Fired> fired;
  json operators = json::array();
};

// Options without forced kernels for nodes that this piece does not have.
OptimizeOptions for_piece(const OptimizeOptions& options, const ir::Graph& graph,
                          std::set<std::string>& found) {
  OptimizeOptions own = options;
  std::erase_if(own.force, [&](const auto& forced) {
    const bool here = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const ir::Node& node) { return node.name == forced.first; });
    if (here || is_family(forced.first)) found.insert(forced.first);
    return !here && !is_family(forced.first);
  });
  return own;
}

// Heavy pieces get the kernels that they would have as models of their own, each with a share of
// the budget that goes by its work.
Tuning tune_pieces(StagedTrial& trial, Staged& staged, const OptimizeOptions& options,
                   const TuningBudget& budget) {
  Tuning tuning;
  double all = 0;
  for (const StagedTrial::Seen& seen : trial.pieces) {
    if (!seen.piece->light) all += std::max(1.0, seen.piece->flops * seen.runs);
  }
  std::set<std::string> found;
  for (StagedTrial::Seen& seen : trial.pieces) {
    StagePiece& piece = *seen.piece;
    if (piece.light) continue;
    check_interrupt();
    auto graph = std::make_shared<ir::Graph>(*piece.graph);
    const passes::PipelineReport rewritten = passes::run_pipeline(
        *graph, {.disabled = options.disable, .derived = &staged.siblings()->derived()});
    tuning.fired.insert(tuning.fired.end(), rewritten.fired.begin(), rewritten.fired.end());
    const double share = std::max(1.0, piece.flops * seen.runs) / all;
    TuningOptions how = tuning_options(for_piece(options, *graph, found),
                                       {budget.seconds * share, budget.thorough}, *graph);
    how.compare_s *= share;
    how.shared = &staged.siblings()->weights();
    Tuned tuned = choose_kernels(graph, staged.options().target, how);
    check_memory(tuned.compiled.program);
    if (tuned.open(how)) compare_with_default(tuned, graph, how, seen.inputs);
    const SelectCounts counts = tuned.selector->counts();
    tuning.counts.measured += counts.measured;
    tuning.counts.known += counts.known;
    tuning.counts.by_order += counts.by_order;
    std::vector<double> ms;
    if (options.profile) {
      ms = time_program(tuned.compiled.program, seen.inputs,
                        (budget.seconds > 0 ? 1.0 : 0.5) * share)
               .instruction_ms;
    }
    for (json& row : operators_json(tuned.compiled, ms)) tuning.operators.push_back(std::move(row));
    tuning.used.merge(tuned.selector->used());
    tuning.known.merge(tuned.known);
    piece.program = std::make_shared<Program>(std::move(tuned.compiled.program));
    piece.pool = std::make_shared<ExecutorPool>(*piece.program);
  }
  for (const auto& [name, row] : options.force) {
    if (found.count(name) > 0 || is_family(name) || !trial.failure.empty()) continue;
    throw_invalid(
        "forced kernels: '{}' is neither an operator family (see `stretto kernels`) nor a "
        "node of the optimised graph (see `stretto inspect`)",
        name);
  }
  tuning.known.merge(tuning.used);
  return tuning;
}

// Every piece against the reference, on what it got in the first run: what comes of a decision that
// rounding turns the other way is then no error.
json verify_pieces(const StagedTrial& trial, const std::string& file, json& notes) {
  json errors = json::array();
  for (const StagedTrial::Seen& seen : trial.pieces) {
    check_interrupt();
    try {
      const Verified checked =
          verified(*seen.piece->graph, *seen.piece->program, seen.inputs, file, notes);
      for (json& error : errors_json(checked.errors, checked.bound)) {
        errors.push_back(std::move(error));
      }
    } catch (const InvalidArgument& error) {  // these inputs check nothing
      notes.push_back(error.what());
    }
  }
  return errors;
}

Latency time_staged(Staged& staged, const std::vector<AnyValue>& inputs, double budget_s) {
  std::vector<double> ms;
  Latency latency;
  const double first = now_s();
  staged.run(inputs);
  latency.first_ms = (now_s() - first) * 1e3;
  const double start = now_s();
  while (ms.size() < 5 || now_s() - start < budget_s) {
    const double begin = now_s();
    staged.run(inputs);
    ms.push_back((now_s() - begin) * 1e3);
  }
  std::sort(ms.begin(), ms.end());
  latency.runs = static_cast<int>(ms.size());
  latency.median_ms = ms[ms.size() / 2];
  latency.p95_ms = ms[std::min(ms.size() - 1, ms.size() * 95 / 100)];
  return latency;
}

json specs_json(const std::vector<TensorSpec>& list) {
  json out = json::array();
  for (const TensorSpec& s : list) {
    out.push_back({{"name", s.name},
                   {"dtype", s.other.empty() ? std::string(dtype_name(s.dtype)) : s.other},
                   {"shape", s.shape}});
  }
  return out;
}

}  // namespace

Model optimize_staged(std::shared_ptr<onnx::Reader> reader, const std::string& file,
                      const OptimizeOptions& options, Stages& stages) {
  const kernels::Target target = make_target(options);
  const TuningBudget budget = parse_tuning(options.tuning);
  auto source = std::make_shared<StagedSource>(reader);
  const onnx::Body& body = *source->body;
  const StagedFace face = staged_face(*reader, body, file, options);
  ImportedModel imported = reader->describe();
  auto siblings = std::make_shared<Siblings>();
  std::map<std::string, std::string> forced;
  for (const auto& [name, row] : options.force) {
    if (is_family(name)) forced[name] = row;
  }
  tune::TuningCache known = tune::TuningCache::shipped();
  known.merge(tune::load_tuning_cache(tune::tuning_cache_path(options.tuning_cache)));
  siblings->set_making({.disabled = options.disable, .forced = forced, .known = known});
  Staged trying(source, face.inputs, siblings, {.target = target, .keep_graphs = true});
  StagedTrial trial = stages("import", [&] { return try_staged(trying, face, options); });

  std::vector<std::string> assumed = imported.notes;
  for (const std::string& note : face.notes) assumed.push_back(note);
  assumed.push_back(
      "parts of the model depend on values that only a run knows, so it runs in stages");
  if (!trial.failure.empty()) {
    assumed.push_back("nothing was measured and verified, because no run was made: " +
                      trial.failure);
  }
  for (size_t i = 0; i < trial.samples.size(); ++i) {
    if (!trial.samples[i].rounded) continue;
    assumed.push_back(fmt::format("input {}: float64 was rounded to float32",
                                  face.graph.value(face.graph.inputs[i]).name));
  }
  json report{{"stretto", STRETTO_VERSION}};
  json notes = assumed;
  Tuning tuning = stages("tuning", [&] { return tune_pieces(trial, trying, options, budget); });
  known.merge(tuning.known);
  siblings->set_making({.disabled = options.disable, .forced = forced, .known = known});
  if (options.verify && trial.failure.empty()) {
    stages("verify", [&] { report["errors"] = verify_pieces(trial, file, notes); });
  }
  const auto staged =
      std::make_shared<Staged>(source, face.inputs, siblings, Staged::Options{.target = target});
  std::vector<AnyValue> inputs;
  for (const SampleInput& sample : trial.samples) inputs.emplace_back(sample.tensor);
  // So that the first call of the user meets programs that are there.
  if (trial.failure.empty()) stages("compile", [&] { staged->run(inputs); });
  if (options.profile && trial.failure.empty()) {
    stages("profile", [&] {
      const double time_s = budget.seconds > 0 ? 1.0 : 0.5;
      const auto plain = std::make_shared<Siblings>();
      plain->set_making({.disabled = fusions(), .forced = {}, .known = {}});
      Staged before(source, face.inputs, plain, {.target = target});
      report["latency"] = {{"before", latency_json(time_staged(before, inputs, 0.6 * time_s))},
                           {"after", latency_json(time_staged(*staged, inputs, time_s))},
                           {"peers", json::array()},
                           {"other_work", nullptr}};
    });
  }
  report["operators"] = std::move(tuning.operators);

  auto program = std::make_shared<Program>();
  program->target = target;
  program->inputs = staged_inputs(face, body);
  program->outputs = staged_outputs(body, trial.outputs);
  double flops = 0;
  size_t instructions = trial.steps.size();
  for (const StagedTrial::Seen& seen : trial.pieces) {
    flops += seen.piece->flops * seen.runs;
    instructions += seen.piece->program->instructions.size();
  }
  json between = json::array();
  for (const auto& [op, node] : trial.steps) between.push_back({{"op", op}, {"node", node}});
  report["model"] = {{"name", face.graph.name},
                     {"format", imported.format},
                     {"file", file},
                     {"opset", imported.opset},
                     {"producer", imported.producer},
                     {"inputs", specs_json(program->inputs)},
                     {"outputs", specs_json(program->outputs)},
                     {"nodes_before", body.nodes().size()},
                     {"nodes_after", instructions},
                     {"flops", flops}};
  report["stages"] = {{"pieces", trial.pieces.size()}, {"between", std::move(between)}};
  report["machine"] = machine_json(target);
  report["machine"]["other_work"] = other_work_json(stages.other_work());
  report["options"] = options_json(options, target);
  report["inputs"] = inputs_json(face.graph, trial.samples);
  report["memory"] = {{"weight_bytes", siblings->weights().bytes()},
                      {"memory_bytes", staged->memory_bytes()},
                      {"peak_bytes", peak_resident_bytes()}};
  report["passes"] = passes_json(tuning.fired);
  report["pass_seconds"] = json::array();
  report["tuning"] = {{"mode", options.tuning},
                      {"budget_s", budget.seconds},
                      {"measured", tuning.counts.measured},
                      {"from_tuning_cache", tuning.counts.known},
                      {"from_default", tuning.counts.by_order},
                      {"compared", nullptr}};
  report["notes"] = std::move(notes);
  report["seconds"] = stages.finish();

  auto state = std::make_shared<Model::State>();
  state->name = face.graph.name;
  state->program = program;
  state->graph = std::make_shared<ir::Graph>(face.graph);
  state->choices = tuning.used;
  state->siblings = siblings;
  state->staged = staged;
  state->samples = {.inputs = {},
                    .outputs = {},
                    .bound = 0,
                    .missing = "the model runs in stages, of which no samples are kept"};
  state->notes = std::move(assumed);
  state->constant_inputs = imported.constant_inputs;
  state->report_json = report.dump();
  for (const std::string& path : reader->describe().files) {
    state->sources.push_back(std::filesystem::absolute(path).string());
  }
  return Model(std::move(state));
}

std::vector<Tensor> run_staged_reference(const std::string& path, const OptimizeOptions& options,
                                         std::span<const Tensor> inputs) {
  auto source = open_staged_source(path, options);
  const StagedFace face = staged_face(*source->reader, *source->body, path, options);
  Staged staged(source, face.inputs, nullptr, {.target = {}, .reference = true});
  std::vector<Tensor> outputs;
  for (const AnyValue& value : staged.run(std::vector<AnyValue>(inputs.begin(), inputs.end()))) {
    outputs.push_back(value.tensor());
  }
  return outputs;
}

}  // namespace stretto::runtime
