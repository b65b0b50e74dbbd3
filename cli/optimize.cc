// stretto optimize m.onnx -o m.stretto [--report r.html]
#include <memory>
#include <nlohmann/json.hpp>

#include "comparison.h"
#include "model_options.h"
#include "peers.h"
#include "progress.h"
#include "stretto/base/file.h"
#include "stretto/report/report.h"
#include "table.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct OptimizeFlags {
  ModelFlags model;
  std::string source, output, report;
  std::vector<std::string> peers{"none"};
};

// Whether anything in the report was measured.
bool measured(const json& report) {
  return report.value("latency", json()).is_object() ||
         report.value("tuning", json::object()).value("measured", 0) > 0;
}

// "31.2 ms before, 22.9 ms after": only what was measured.
void print_summary(const Model& model, const json& report) {
  fmt::print("{}", summary_line(model));
  const json latency = report.value("latency", json::object());
  const auto median = [&](const char* key) {
    const json part = latency.value(key, json());
    return part.is_object() ? part.value("median_ms", 0.0) : 0.0;
  };
  if (const double after = median("after"); after > 0) {
    const double before = median("before");
    fmt::print("latency: {} ms", milliseconds(after));
    if (before > 0) {
      fmt::print(", before {} ms ({:.2f}x)", milliseconds(before), before / after);
    }
    fmt::print("\n");
  }
  for (const json& error : report.value("errors", json::array())) {
    fmt::print("output {}: largest error {:.2g} of its largest value (allowed {:.2g})\n",
               error.value("output", "?"), error.value("relative_to_max", 0.0),
               error.value("bound", 0.0));
  }
  const json other_work = report.value("machine", json::object()).value("other_work", json());
  const std::string busy = other_work.is_object() ? other_work.value("remark", "") : "";
  if (!busy.empty() && measured(report)) {
    fmt::print(
        "{} meanwhile, so times are noisy, and kernels may be other than the fastest: optimise "
        "again on a quiet machine\n",
        busy);
  }
}

json summary(const OptimizeFlags& flags, const Model& model, const json& report,
             const Comparison& comparison) {
  const auto or_null = [](const std::string& path) { return path.empty() ? json() : json(path); };
  json result{{"model", model.name()},
              {"threads", model.threads()},
              {"weight_bytes", model.weight_bytes()},
              {"memory_bytes", model.memory_bytes()},
              {"latency", report.value("latency", json::object())},
              {"errors", report.value("errors", json::array())},
              {"artefact", or_null(flags.output)},
              {"report", or_null(flags.report)}};
  result["latency"].erase("peers");
  if (!comparison.engines.empty()) result.update(to_json(comparison));
  return result;
}

void check_files(const OptimizeFlags& flags) {
  constexpr std::string_view kEndings[] = {".html", ".json"};
  check_ending({"--report", flags.report}, kEndings);
  if (flags.output.ends_with(".onnx")) {
    throw_invalid("-o {}: an artefact is no ONNX file; call it *.stretto", flags.output);
  }
  const NamedFile outputs[] = {{"-o", flags.output}, {"--report", flags.report}};
  check_outputs(outputs, input_files(flags.source, flags.model));
}

int run_optimize(const OptimizeFlags& flags, const Context& context) {
  const Talk& talk = *context.talk;
  if (flags.source.ends_with(".stretto")) {
    throw_invalid("optimize: {} is already optimised; name the ONNX file it was made from",
                  flags.source);
  }
  if (!flags.source.ends_with(".onnx")) {
    throw_invalid("optimize: expected a file called *.onnx, got {}", flags.source);
  }
  check_files(flags);
  const std::vector<std::string> peers = check_peers(flags.peers, context.python);
  OptimizeOptions o = options(flags.model);
  for (const std::string& pair : flags.model.inputs) {
    if (!o.preprocess.empty() || !is_picture(pair)) continue;
    throw_invalid(
        "optimize: --input {}: the model takes tensors; add --preprocess 'imagenet(224)' "
        "to give it pictures",
        pair);
  }
  o.profile = !flags.report.empty();
  const Model model = open_model(flags.source, o, talk);
  json report = json::parse(model.report_json());
  Comparison comparison;
  if (!flags.report.empty() || peers != std::vector<std::string>{"none"}) {
    comparison = time_with_peers(model, {.onnx_path = flags.source,
                                         .inputs = o.inputs,
                                         .peers = peers,
                                         .python = context.python,
                                         .verify = o.verify,
                                         .progress = progress_bar(talk)});
    end_progress();
    add_comparison(report, comparison);
  }
  if (!flags.report.empty()) {
    const std::string text = report.dump(1);
    write_file(flags.report,
               flags.report.ends_with(".json") ? text + "\n" : report::report_html(text));
  }
  if (!flags.output.empty()) model.save(flags.output);
  if (talk.json) {
    print_json(summary(flags, model, report, comparison));
  } else {
    print_summary(model, report);
    if (comparison.engines.size() > 1) print_comparison(comparison);
    for (const std::string& path : {flags.output, flags.report}) {
      if (!path.empty()) fmt::print("wrote {}\n", path);
    }
  }
  if (flags.output.empty()) {
    talk.note("the optimised model is not kept; add -o FILE.stretto to write it");
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_optimize(Command& command, const Context& context) {
  auto flags = std::make_shared<OptimizeFlags>();
  add_option(command, "source", &flags->source, "FILE", "The ONNX file", {.required = true});
  add_option(command, "-o,--output", &flags->output, "FILE",
             "Write the optimised model here: m.stretto", {.group = "Output"});
  add_option(command, "--report", &flags->report, "FILE", "Also write a report: r.html or r.json",
             {.group = "Output"});
  add_option(command, "--peers", &flags->peers, "none|installed|PEER,...",
             "Engines to compare with, which may take minutes; 'stretto peers' lists them [none]",
             {.group = "Output"});
  add_input_flags(command, flags->model);
  add_lengths_flag(command, flags->model);
  add_preprocess_flag(command, flags->model);
  add_threads_flag(command, flags->model);
  add_tuning_flags(command, flags->model);
  return [flags, context] { return run_optimize(*flags, context); };
}

}  // namespace stretto::cli
