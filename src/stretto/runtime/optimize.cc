// stretto::optimize as a list of steps: import, rewrite, select and compile, verify, measure,
// report.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/memory.h"
#include "stretto/base/random.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/not_straight.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/lengths.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/open_trials.h"
#include "stretto/runtime/opening.h"
#include "stretto/runtime/optimize.h"
#include "stretto/runtime/optimize_parts.h"
#include "stretto/runtime/optimize_staged.h"
#include "stretto/runtime/other_shapes.h"
#include "stretto/runtime/report.h"
#include "stretto/runtime/stored_model.h"
#include "stretto/runtime/tuning.h"
#include "stretto/stretto.h"
#include "stretto/tensor/compare.h"
#include "stretto/tensor/narrow.h"
#include "stretto/tune/cache_file.h"

namespace stretto {
namespace {

using nlohmann::json;
using runtime::Compiled;
using runtime::make_target;
using runtime::parse_tuning;
using runtime::Stages;
using runtime::storage_error;
using runtime::tuning_options;
using runtime::TuningBudget;
using runtime::Verified;
using runtime::verified;

// What load() verifies the model with: the reference's outputs or, without verification, the
// model's own. The latter may be off by the allowed error already, so twice that is allowed then.
runtime::Samples samples_of(const ir::Graph& graph, const runtime::Program& program,
                            const std::vector<runtime::SampleInput>& samples,
                            const std::vector<Tensor>& inputs,
                            const std::optional<Verified>& verified) {
  if (verified) return runtime::take_samples(graph, samples, verified->expected, verified->bound);
  const double bound =
      2 * std::max(runtime::allowed_error(program.target.accuracy), storage_error(graph));
  return runtime::take_samples(graph, samples, runtime::run_program(program, inputs), bound);
}

// The unfused model with kernels in built-in order: what the report calls "before". Weights that
// were derived and packed for the model are taken from there, and nothing is added.
Compiled compile_before(const ir::Graph& original, const kernels::Target& target,
                        passes::Derived derived, runtime::SharedWeights weights) {
  auto graph = std::make_shared<ir::Graph>(original);
  passes::run_pipeline(*graph, {.disabled = runtime::fusions(), .derived = &derived});
  runtime::Selector selector({});
  return runtime::compile(graph, target, selector, {.shared = &weights});
}

// For the report; null where no comparison was needed.
json verdict_json(const runtime::Tuned& tuned) {
  if (!tuned.verdict || tuned.verdict->contest.rounds == 0) return nullptr;
  const runtime::Contest& contest = tuned.verdict->contest;
  return {{"tuned_ms", contest.first_ms},
          {"default_ms", contest.second_ms},
          {"ratio", contest.ratio},
          {"rounds", contest.rounds},
          {"kept", tuned.verdict->default_kept ? "default" : "tuned"},
          {"remembered", tuned.remembered}};
}

Model optimize_imported(ImportedModel imported, const OptimizeOptions& options, Stages& stages,
                        const std::shared_ptr<runtime::Siblings>& siblings = nullptr) {
  const std::string file = imported.source;
  const kernels::Target target = make_target(options);
  const TuningBudget budget = parse_tuning(options.tuning);
  // Of a model that is wanted for other shapes, all graphs must have the same constants.
  if (imported.borrows && siblings) siblings->own_constants(imported.graph);
  ir::Graph original = imported.graph;
  runtime::check_memory(original);
  auto graph = std::make_shared<ir::Graph>(std::move(imported.graph));
  const auto samples = runtime::sample_inputs(original, options.inputs);
  std::vector<Tensor> inputs;
  for (const runtime::SampleInput& sample : samples) inputs.push_back(sample.tensor);

  runtime::Siblings alone;
  runtime::Siblings& common = siblings ? *siblings : alone;
  const passes::PipelineReport rewritten = stages("passes", [&] {
    return passes::run_pipeline(*graph,
                                {.disabled = options.disable, .derived = &common.derived()});
  });

  if (imported.borrows && !siblings) runtime::own_borrowed(*graph, original);

  runtime::TuningOptions how = tuning_options(options, budget, *graph);
  how.shared = &common.weights();
  runtime::Tuned tuned =
      stages("tuning", [&] { return runtime::choose_kernels(graph, target, how); });
  Compiled& compiled = tuned.compiled;
  runtime::check_memory(compiled.program);
  const bool room = 4 * compiled.program.weight_bytes() < total_memory_bytes();
  // Both its sizes and its values may be made up.
  const auto on_samples = [&](const auto& f) {
    try {
      return f();
    } catch (const InvalidArgument& error) {
      const bool made_up = std::ranges::any_of(samples, &runtime::SampleInput::made_up);
      const std::string_view what = error.what();
      if (!made_up) throw;
      if (what.starts_with(file)) throw runtime::SampleRefused(error.what());
      throw runtime::SampleRefused(fmt::format(
          "{}: {} (with inputs that were made up; give some that the model takes)", file, what));
    }
  };
  if (tuned.open(how) && room) {
    stages("compare",
           [&] { on_samples([&] { runtime::compare_with_default(tuned, graph, how, inputs); }); });
  }

  std::vector<std::string> assumed = imported.notes;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!samples[i].rounded) continue;
    assumed.push_back(fmt::format("input {}: float64 was rounded to float32",
                                  original.value(original.inputs[i]).name));
  }
  json report{{"stretto", STRETTO_VERSION}};
  json notes = assumed;
  std::optional<Verified> checked;
  if (options.verify) {
    stages("verify", [&] {
      checked =
          on_samples([&] { return verified(original, compiled.program, inputs, file, notes); });
    });
    report["errors"] = runtime::errors_json(checked->errors, checked->bound);
  }
  runtime::Samples kept =
      on_samples([&] { return samples_of(*graph, compiled.program, samples, inputs, checked); });

  if (options.profile) {
    stages("profile", [&] {
      // With tuning="off" the caller is in a hurry, so the report is measured faster too.
      const double time_s = budget.seconds > 0 ? 1.0 : 0.5;
      const runtime::ProgramTiming after =
          on_samples([&] { return runtime::time_program(compiled.program, inputs, time_s); });
      const Compiled unfused = compile_before(original, target, common.derived(), common.weights());
      const runtime::ProgramTiming before =
          runtime::time_program(unfused.program, inputs, 0.6 * time_s);
      report["latency"] = {{"before", runtime::latency_json(before.latency)},
                           {"after", runtime::latency_json(after.latency)},
                           {"peers", json::array()},
                           {"other_work", nullptr}};
      report["operators"] = runtime::operators_json(compiled, after.instruction_ms);
      report["operators_before"] =
          runtime::operator_sums_json(unfused.program, before.instruction_ms);
    });
  } else {
    report["operators"] = runtime::operators_json(compiled, {});
  }

  const runtime::Program& program = compiled.program;
  const auto specs = [](const std::vector<TensorSpec>& list) {
    json out = json::array();
    for (const TensorSpec& s : list) {
      out.push_back({{"name", s.name}, {"dtype", dtype_name(s.dtype)}, {"shape", s.shape}});
    }
    return out;
  };
  report["model"] = {{"name", original.name},
                     {"format", imported.format},
                     {"file", imported.format == "onnx" ? json(file) : json(nullptr)},
                     {"opset", imported.opset == 0 ? json(nullptr) : json(imported.opset)},
                     {"producer", imported.producer},
                     {"inputs", specs(program.inputs)},
                     {"outputs", specs(program.outputs)},
                     {"nodes_before", original.nodes.size()},
                     {"nodes_after", graph->nodes.size()},
                     {"flops", ir::flops(*graph)}};
  report["stages"] = nullptr;
  report["preprocess"] = nullptr;
  report["machine"] = runtime::machine_json(target);
  report["machine"]["other_work"] = runtime::other_work_json(stages.other_work());
  report["options"] = runtime::options_json(options, target);
  report["inputs"] = runtime::inputs_json(original, samples);
  report["memory"] = {{"weight_bytes", program.weight_bytes()},
                      {"memory_bytes", program.arena_bytes},
                      {"peak_bytes", runtime::peak_resident_bytes()}};
  report["passes"] = runtime::passes_json(rewritten.fired);
  json pass_seconds = json::array();
  for (const auto& [name, seconds] : rewritten.seconds) pass_seconds.push_back({name, seconds});
  report["pass_seconds"] = std::move(pass_seconds);
  if (tuned.verdict && tuned.verdict->default_kept) {
    notes.push_back(fmt::format(
        "the kernels that measurements chose were not clearly faster as a whole ({:.3g} ms, those "
        "of the built-in order {:.3g} ms), so the built-in order was kept; tuning for more than "
        "{:g} s measures again",
        tuned.verdict->contest.first_ms, tuned.verdict->contest.second_ms,
        tuned.verdict->budget_s));
  }
  const runtime::SelectCounts counts = tuned.selector->counts();
  report["tuning"] = {{"mode", options.tuning},          {"budget_s", budget.seconds},
                      {"measured", counts.measured},     {"from_tuning_cache", counts.known},
                      {"from_default", counts.by_order}, {"compared", verdict_json(tuned)}};
  report["notes"] = std::move(notes);
  report["seconds"] = stages.finish();

  auto state = std::make_shared<Model::State>();
  state->name = original.name;
  state->program = std::make_shared<runtime::Program>(std::move(compiled.program));
  state->graph = std::move(graph);
  state->choices = tuned.selector->used();
  if (siblings) {
    tuned.known.merge(state->choices);
    siblings->set_making(
        {.disabled = options.disable, .forced = how.forced, .known = std::move(tuned.known)});
    state->siblings = siblings;
  }
  state->samples = std::move(kept);
  state->notes = std::move(assumed);
  state->constant_inputs = std::move(imported.constant_inputs);
  state->report_json = report.dump();
  for (const std::string& source : imported.files) {
    state->sources.push_back(std::filesystem::absolute(source).string());
  }
  return Model(std::move(state));
}

// The model with programs for real tokens, of which the first is made and compared with the padded
// one here. Throws Unsupported where no attention can be packed.
Model with_lengths(const Model& padded, const std::shared_ptr<runtime::ProgramsByShape>& by_shape,
                   const OptimizeOptions& options, const std::string& file) {
  const runtime::Program& program = *padded.state().program;
  const int mask = runtime::find_mask(by_shape->lengths(), program.inputs);
  const TensorSpec& spec = program.inputs[static_cast<size_t>(mask)];
  const Tensor lengths = runtime::mixed_lengths(spec);
  const int64_t tokens = runtime::count_tokens(spec.name, spec.dtype, spec.shape, lengths.data());
  std::vector<Shape> shapes;
  for (const TensorSpec& input : program.inputs) shapes.push_back(input.shape);
  passes::Ragged ragged;
  const auto packed = by_shape->program(shapes, program.target,
                                        runtime::rounded_rows(tokens, lengths.count()), &ragged);
  const std::string note = runtime::ragged_note(ragged);
  if (ragged.packed == 0) {
    throw_unsupported("{}: {}, so every run would work on padded samples; leave lengths out", file,
                      note);
  }
  const ir::Graph& graph = *padded.state().graph;
  if (options.verify) {
    std::vector<Tensor> inputs;
    for (auto& sample : runtime::sample_inputs(graph, options.inputs)) {
      inputs.push_back(std::move(sample.tensor));
    }
    // Both programs may be off by as much as the padded one was allowed to be.
    const double bound =
        2 * std::max(runtime::allowed_error(program.target.accuracy), padded.state().samples.bound);
    runtime::verify_ragged(program, *packed, mask, inputs, bound, file);
  }
  auto state = std::make_shared<Model::State>(padded.state());
  state->by_shape = by_shape;
  state->notes.push_back(note);
  json report = json::parse(state->report_json);
  report["notes"].push_back(note);
  state->report_json = report.dump();
  return Model(std::move(state));
}

// Packs what programs for the sizes of a range need, so that a new size packs nothing.
void make_range_ready(runtime::ProgramsByShape& by_shape, const runtime::Opening& opening,
                      const kernels::Target& target) {
  by_shape.program(opening.other, target);
  if (!by_shape.lengths().empty()) return;
  constexpr int kMost = 64, kEnough = 12;  // shapes; and how many in a row that pack nothing
  int useless = 0;
  for (int i = 0; i < kMost && useless < kEnough; ++i) {
    const auto shapes = runtime::shapes_between(opening, i);
    if (!shapes) return;
    ++useless;
    try {
      if (by_shape.pack_for(*shapes, target)) useless = 0;
    } catch (const InvalidArgument&) {  // the model does not take such a size, as an odd one
    } catch (const Unsupported&) {
    }
  }
  by_shape.siblings().settle();
}

// Throws SampleRefused where the model does not take what was guessed.
Model optimize_guessed(const std::shared_ptr<onnx::Reader>& reader,
                       const std::vector<onnx::DeclaredInput>& declared, const std::string& file,
                       const OptimizeOptions& options, Stages& stages,
                       const runtime::Guessing& guessing) {
  std::optional<runtime::Opening> opening;
  std::shared_ptr<runtime::ProgramsByShape> by_shape;
  ImportedModel imported = stages("import", [&] {
    runtime::FirstImport found = runtime::import_first(*reader, declared, file, options, guessing);
    opening = std::move(found.opening);
    ImportedModel first = std::move(found.model);
    if (!options.lengths.empty()) {
      runtime::find_mask(options.lengths, runtime::input_specs(first.graph));
      if (!opening) {
        throw_invalid("{}: lengths: an input has no shape in the file; give all of them shapes",
                      file);
      }
    }
    if (!opening || (opening->fixed() && options.lengths.empty())) return first;
    const auto programs = [&] {
      return std::make_shared<runtime::ProgramsByShape>(
          opening->inputs, runtime::onnx_source(reader), options.lengths);
    };
    by_shape = programs();
    by_shape->check(opening->first);  // given arrays may lie outside of the ranges
    if (!opening->fixed()) {
      opening = runtime::really_open(*by_shape, std::move(*opening), file, first.notes);
      by_shape = opening->fixed() && options.lengths.empty() ? nullptr : programs();
    }
    for (size_t i = 0; by_shape && i < opening->inputs.size(); ++i) {
      if (is_fixed(by_shape->inputs()[i].shape)) continue;
      first.notes.push_back(
          fmt::format("input {} takes {}: optimised for {}, and compiled for "
                      "other sizes when they come",
                      opening->inputs[i].name, shape_range_text(opening->inputs[i].shape),
                      shape_text(opening->first[i])));
    }
    return first;
  });
  // Nobody asked for so much memory if a size was guessed.
  const auto optimized = [&](const OptimizeOptions& how) {
    try {
      return optimize_imported(std::move(imported), how, stages, runtime::siblings_of(by_shape));
    } catch (const std::bad_alloc&) {
      if (!opening || opening->guesses.empty()) throw;
      throw_unsupported("{}: there is too little memory ({})", file,
                        runtime::memory_advice(*opening));
    }
  };
  if (!by_shape) return optimized(options);
  const OptimizeOptions masked =
      options.lengths.empty() ? options
                              : runtime::with_mask(options, runtime::input_specs(imported.graph));
  const Model model = optimized(masked);
  auto state = std::make_shared<Model::State>(model.state());
  state->by_shape = by_shape;
  by_shape->keep(state->program);
  if (!options.lengths.empty()) {
    state =
        std::make_shared<Model::State>(stages("lengths", [&] {
                                         return with_lengths(Model(state), by_shape, options, file);
                                       }).state());
  }
  if (opening->asked && !by_shape->fixed()) {
    make_range_ready(*by_shape, *opening, state->program->target);
  }
  return Model(std::move(state));
}

Model optimize_straight(const std::shared_ptr<onnx::Reader>& reader,
                        const std::vector<onnx::DeclaredInput>& declared, const std::string& file,
                        const OptimizeOptions& options, Stages& stages) {
  const auto optimized = [&](const runtime::Guessing& guessing) {
    return optimize_guessed(reader, declared, file, options, stages, guessing);
  };
  try {
    return optimized({});
  } catch (const runtime::SampleRefused& refused) {
    const auto opening = runtime::find_opening(declared, file, options);
    if (!opening || opening->guesses.empty()) throw;
    for (int64_t smaller : runtime::kSmallerGuesses) {
      try {
        return optimized({.most = smaller, .why = refused.what()});
      } catch (const runtime::SampleRefused&) {
        continue;
      }
    }
    throw;
  }
}

// The model behind the steps of `options.preprocess`, and these before it. The tensor that they
// make has one size, which the input is held to, and others by the names of its dimensions; its
// batch stays as open as it is.
Model optimize_pictures(const std::shared_ptr<onnx::Reader>& reader, const std::string& file,
                        const OptimizeOptions& options, Stages& stages) {
  std::vector<onnx::DeclaredInput> declared = reader->inputs();
  const auto found = runtime::find_picture_input(options, declared, file);
  onnx::DeclaredInput& input = declared[found.index];
  OptimizeOptions tensors = options;
  tensors.preprocess.clear();
  if (input.shape) {
    for (size_t i = 1; i < found.shape.size(); ++i) (*input.shape)[i].size = found.shape[i];
  } else if (!options.ranges.contains(input.name)) {
    tensors.shapes.try_emplace(input.name, found.shape);
  }
  const auto given = tensors.inputs.find(input.name);
  if (given != tensors.inputs.end() && given->second.dtype() == DType::kUInt8) {
    given->second =
        runtime::prepared(*runtime::parse_steps(options.preprocess), found.channels_last,
                          input.dtype, given->second, "input " + input.name, 1);
  }
  const Model model = optimize_straight(reader, declared, file, tensors, stages);
  auto state = std::make_shared<Model::State>(model.state());
  runtime::add_pictures(
      *state,
      {.steps = options.preprocess, .index = found.index, .channels_last = found.channels_last});
  json report = json::parse(state->report_json);
  report["preprocess"] = runtime::preprocess_json(*state, options.profile);
  state->report_json = report.dump();
  return Model(std::move(state));
}

Model optimize_onnx(std::shared_ptr<onnx::Reader> reader, const std::string& file,
                    const OptimizeOptions& options, Stages& stages) {
  runtime::feed_named(*reader, options);
  try {
    if (!options.preprocess.empty()) return optimize_pictures(reader, file, options, stages);
    return optimize_straight(reader, reader->inputs(), file, options, stages);
  } catch (const ir::NotStraight&) {
    if (!options.lengths.empty()) {
      throw_unsupported(
          "{}: lengths: the model runs in stages, because parts of it depend on values, and works "
          "on padded samples; leave lengths out",
          file);
    }
    if (!options.preprocess.empty()) {
      throw_unsupported(
          "{}: preprocess: the model runs in stages, because parts of it depend on values, and "
          "those take tensors only; leave preprocess out, or export the model without them",
          file);
    }
    return runtime::optimize_staged(std::move(reader), file, options, stages);
  }
}

// Import errors name the file; this adds the name to later errors, for example about memory. If
// `interrupt` threw, that exception is thrown again, even if another one replaced it on its way.
// Programs of one model draw the same numbers meanwhile: they are compared with each other.
template <typename F>
Model naming(const std::string& file, const InterruptScope& interrupt, F&& f) {
  const RepeatedDraws repeated;
  try {
    return f();
  } catch (const Unsupported& error) {
    interrupt.rethrow();
    if (std::string_view(error.what()).starts_with(file)) throw;
    throw Unsupported(fmt::format("{}: {}", file, error.what()));
  } catch (...) {
    interrupt.rethrow();
    throw;
  }
}

}  // namespace

Model optimize(const std::string& path, const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  Stages stages(options);
  return naming(path, interrupt, [&] {
    return optimize_onnx(stages("import", [&] { return onnx::Reader::of_file(path); }), path,
                         options, stages);
  });
}

Model optimize(std::span<const std::byte> bytes, const std::string& name, const std::string& folder,
               const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  Stages stages(options);
  return naming(name, interrupt, [&] {
    return optimize_onnx(
        stages("import", [&] { return onnx::Reader::of_bytes(bytes, name, folder); }), name,
        options, stages);
  });
}

Model runtime::optimize_model(ImportedModel imported, const OptimizeOptions& options,
                              bool for_other_shapes) {
  const InterruptScope interrupt(options.interrupt);
  Stages stages(options);
  const std::string source = imported.source;
  return naming(source, interrupt, [&] {
    if (!options.preprocess.empty()) {
      throw_unsupported("{}: preprocess: only ONNX models can be given pictures", source);
    }
    if (!options.lengths.empty()) {
      const auto by_shape = runtime::by_tokens(imported, options.lengths, nullptr);
      const Model model =
          optimize_imported(std::move(imported), options, stages, runtime::siblings_of(by_shape));
      return with_lengths(model, by_shape, options, source);
    }
    return optimize_imported(std::move(imported), options, stages,
                             for_other_shapes ? std::make_shared<runtime::Siblings>() : nullptr);
  });
}

Model runtime::optimize_open_graph(ImportedModel imported,
                                   const std::map<std::string, ShapeRange>& open,
                                   const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  Stages stages(options);
  const std::string name = imported.graph.name;
  return naming(name, interrupt, [&] {
    auto reader = stages("import", [&] {
      runtime::Siblings().own(imported);
      return runtime::read_again(imported.graph, open, name);
    });
    return optimize_onnx(std::move(reader), name, options, stages);
  });
}

std::vector<Tensor> run_reference(const std::string& onnx_path, const OptimizeOptions& options,
                                  std::span<const Tensor> inputs) {
  const InterruptScope interrupt(options.interrupt);
  ThreadTeam team(options.threads == 0 ? cpu_info().cores : options.threads);
  try {
    const ImportedModel imported = runtime::import_to_look_at(onnx_path, options);
    return ir::interpret(imported.graph, inputs, {.float64 = true, .team = &team});
  } catch (const ir::NotStraight&) {
    return runtime::run_staged_reference(onnx_path, options, inputs);
  }
}

}  // namespace stretto
