// stretto inspect m.onnx [--rules] [--bisect] | m.stretto | --passes
#include <CLI/CLI.hpp>

#include <memory>

#include "model_options.h"
#include "table.h"

namespace stretto::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string source;
  bool passes = false, rules = false, before = false, bisect = false, report = false;
  double tolerance = 1e-4;
};

int print_passes() {
  Table table({"pass", "what it does"});
  for (const auto& [name, summary] : list_passes()) table.row({name, summary});
  fmt::print("{}", table.text());
  return kOk;
}

int print_bisection(const Flags& flags, const OptimizeOptions& o) {
  const std::string found = bisect(flags.source, o, flags.tolerance);
  if (found.empty()) {
    fmt::print("no rewrite moves any output by more than {} of its largest value\n",
               flags.tolerance);
    return kOk;
  }
  fmt::print("{}{}", found, found.ends_with('\n') ? "" : "\n");
  return kFailed;
}

int print_model(const Model& model) {
  fmt::print("{}: {} thread{}, weights {}, activations {}\n", model.name(), model.threads(),
             model.threads() == 1 ? "" : "s", mebibytes(static_cast<double>(model.weight_bytes())),
             mebibytes(static_cast<double>(model.memory_bytes())));
  Table table({"", "name", "dtype", "shape"});
  const auto add = [&](const char* what, const TensorSpec& spec) {
    table.row({what, spec.name, std::string(dtype_name(spec.dtype)), shape_text(spec.shape)});
  };
  for (const TensorSpec& spec : model.inputs()) add("input", spec);
  for (const TensorSpec& spec : model.outputs()) add("output", spec);
  fmt::print("{}", table.text());
  return kOk;
}

int run(const Flags& flags) {
  if (flags.passes) return print_passes();
  if (flags.source.empty()) throw_invalid("inspect: name a model, or ask for --passes");
  if (!flags.source.ends_with(".onnx")) {
    if (flags.rules || flags.before || flags.bisect) {
      throw_invalid(
          "inspect: --rules, --before and --bisect need the ONNX file; an artefact holds "
          "only the optimised model");
    }
    const Model model = load(flags.source);
    if (flags.report) {
      fmt::print("{}\n", model.report_json());
      return kOk;
    }
    return print_model(model);
  }
  const OptimizeOptions o = options(flags.model);
  if (flags.bisect) return print_bisection(flags, o);
  const Inspection inspection = inspect(flags.source, o);
  if (flags.rules) {
    Table table({"pass", "rule", "node"});
    for (const auto& fired : inspection.fired) table.row({fired.pass, fired.rule, fired.node});
    fmt::print("{}", table.text());
    return kOk;
  }
  const std::string& text = flags.before ? inspection.before : inspection.after;
  fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
  return kOk;
}

}  // namespace

std::function<int()> set_up_inspect(CLI::App& app, const Context&) {
  auto flags = std::make_shared<Flags>();
  app.add_option("source", flags->source, "An ONNX file (shown after the passes) or an artefact");
  app.add_flag("--passes", flags->passes, "List the passes in the order they run");
  app.add_flag("--rules", flags->rules, "List which rule fired where");
  app.add_flag("--before", flags->before, "Show the model before the passes");
  app.add_flag("--bisect", flags->bisect, "Find the rewrite that changes the result");
  app.add_option("--tolerance", flags->tolerance,
                 "For --bisect: allowed difference, relative to an output's largest value")
      ->capture_default_str();
  app.add_flag("--report", flags->report, "Print an artefact's report as JSON");
  add_model_flags(app, flags->model);
  return [flags] { return run(*flags); };
}

}  // namespace stretto::cli
