// stretto optimize m.onnx -o m.stretto [--report r.html]
#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <memory>

#include "beside.h"
#include "comparison.h"
#include "model_options.h"
#include "progress.h"
#include "stretto/base/file.h"
#include "stretto/report/report.h"
#include "table.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct Flags {
  ModelFlags model;
  std::string source, output, report;
  std::vector<std::string> peers;
};

// "31.2 ms before, 22.9 ms after": only what was measured.
void print_summary(const Model& model, const json& report) {
  fmt::print("{}: {} thread{}, weights {}, activations {}\n", model.name(), model.threads(),
             model.threads() == 1 ? "" : "s", mebibytes(static_cast<double>(model.weight_bytes())),
             mebibytes(static_cast<double>(model.memory_bytes())));
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
    fmt::print("output {}: off by {:.2g} of its largest value (allowed {:.2g})\n",
               error.value("output", "?"), error.value("relative_to_max", 0.0),
               error.value("bound", 0.0));
  }
}

int run(const Flags& flags, const Context& context) {
  if (!flags.source.ends_with(".onnx")) {
    throw_invalid("optimize: expected a file called *.onnx, got {}", flags.source);
  }
  OptimizeOptions o = options(flags.model);
  o.profile = !flags.report.empty();
  const Model model = open_model(flags.source, o);
  json report = json::parse(model.report_json());
  std::vector<EngineResult> engines;
  if (!flags.report.empty() || !flags.peers.empty()) {
    engines = time_beside(model, {.onnx_path = flags.source,
                                  .shapes = o.shapes,
                                  .inputs = o.inputs,
                                  .peers = flags.peers,
                                  .python = context.python,
                                  .verify = o.verify,
                                  .progress = progress_bar()});
    end_progress();
    add_comparison(report, engines);
  }
  if (!flags.report.empty()) {
    const std::string text = report.dump(1);
    write_file(flags.report,
               flags.report.ends_with(".json") ? text + "\n" : report::report_html(text));
  }
  if (!flags.output.empty()) model.save(flags.output);
  print_summary(model, report);
  if (engines.size() > 1) print_comparison(engines);
  for (const std::string& path : {flags.output, flags.report}) {
    if (!path.empty()) fmt::print("wrote {}\n", path);
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_optimize(CLI::App& app, const Context& context) {
  auto flags = std::make_shared<Flags>();
  app.add_option("source", flags->source, "The ONNX file")->required();
  app.add_option("-o,--output", flags->output, "The artefact to write: m.stretto");
  app.add_option("--report", flags->report, "Also write a report: r.html or r.json");
  app.add_option("--vs", flags->peers,
                 "Engines to time beside: onnxruntime,openvino,torch,ncnn,mnn; none. A report has "
                 "every one that is installed unless told otherwise")
      ->delimiter(',');
  add_model_flags(app, flags->model);
  return [flags, context] { return run(*flags, context); };
}

}  // namespace stretto::cli
