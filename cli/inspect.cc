// stretto inspect m.onnx [--rules] [--bisect] | m.stretto | --passes
#include <memory>
#include <nlohmann/json.hpp>

#include "model_options.h"
#include "table.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct InspectFlags {
  ModelFlags model;
  std::string source;
  bool passes = false, rules = false, before = false, bisect = false, report = false;
  bool verify = false;
  double tolerance = 1e-4;
};

int print_passes(const Talk& talk) {
  if (talk.json) {
    json list = json::array();
    for (const auto& [name, summary] : list_passes()) {
      list.push_back({{"name", name}, {"summary", summary}});
    }
    print_json({{"passes", list}});
    return kOk;
  }
  Table table({"pass", "what it does"});
  for (const auto& [name, summary] : list_passes()) table.row({name, summary});
  fmt::print("{}", table.text());
  return kOk;
}

int print_bisection(const InspectFlags& flags, const OptimizeOptions& o, const Talk& talk) {
  const std::string found = bisect(flags.source, o, flags.tolerance);
  if (talk.json) {
    print_json({{"tolerance", flags.tolerance}, {"culprit", found.empty() ? json() : json(found)}});
  } else if (found.empty()) {
    fmt::print("no rewrite changes any output by more than {} of its largest value\n",
               flags.tolerance);
  } else {
    fmt::print("{}{}", found, found.ends_with('\n') ? "" : "\n");
  }
  return found.empty() ? kOk : kFailed;
}

int print_model(const Model& model, const Talk& talk) {
  if (talk.json) {
    print_json({{"model", model.name()},
                {"threads", model.threads()},
                {"weight_bytes", model.weight_bytes()},
                {"memory_bytes", model.memory_bytes()},
                {"preprocess", model.preprocess().empty() ? json() : json(model.preprocess())},
                {"inputs", to_json(model.inputs())},
                {"outputs", to_json(model.outputs())}});
    return kOk;
  }
  fmt::print("{}", summary_line(model));
  if (!model.preprocess().empty()) fmt::print("takes pictures: {}\n", model.preprocess());
  Table table({"", "name", "dtype", "shape"});
  const auto add = [&](const char* what, const TensorSpec& spec) {
    table.row({what, spec.name, type_text(spec), shape_text(spec.shape)});
  };
  for (const TensorSpec& spec : model.inputs()) add("input", spec);
  for (const TensorSpec& spec : model.outputs()) add("output", spec);
  fmt::print("{}", table.text());
  return kOk;
}

int inspect_artefact(const Command& command, const InspectFlags& flags, const Talk& talk) {
  if (flags.rules || flags.before || flags.bisect) {
    throw_invalid(
        "inspect: --rules, --before and --bisect need the ONNX file; an artefact holds "
        "only the optimised model");
  }
  warn_without_effect(talk, command, {"--shape", "--input", "--inputs", "--disable", "--tolerance"},
                      flags.source + " is already optimised");
  const LoadOptions how{.threads = flags.model.threads, .verify = flags.verify};
  const Model model = load_artefact(flags.source, how, talk);
  if (flags.verify) talk.note("the outputs agree with those stored in " + flags.source);
  if (!flags.report) return print_model(model, talk);
  fmt::print("{}\n", model.report_json());
  return kOk;
}

int print_rules(const Inspection& inspection, const Talk& talk) {
  if (talk.json) {
    json list = json::array();
    for (const auto& fired : inspection.fired) {
      list.push_back({{"pass", fired.pass}, {"rule", fired.rule}, {"node", fired.node}});
    }
    print_json({{"rules", list}});
    return kOk;
  }
  Table table({"pass", "rule", "node"});
  for (const auto& fired : inspection.fired) table.row({fired.pass, fired.rule, fired.node});
  fmt::print("{}", table.text());
  return kOk;
}

// What to show: the first of these that was given, whatever else was.
void warn_of_the_rest(const Command& command, const Talk& talk) {
  std::vector<std::string_view> rest{"--passes", "--bisect", "--rules", "--before"};
  for (size_t i = 0; i < rest.size(); ++i) {
    if (!was_given(command, rest[i])) continue;
    const std::string shown(rest[i]);
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    warn_without_effect(talk, command, rest, shown + " decides what is shown");
    return;
  }
}

int run_inspect(const Command& command, const InspectFlags& flags, const Talk& talk) {
  if (!(flags.tolerance >= 0)) {
    throw_invalid("--tolerance: expected a number that is not negative, got {}", flags.tolerance);
  }
  warn_of_the_rest(command, talk);
  if (flags.passes) {
    warn_without_effect(talk, command,
                        {"source", "--report", "--verify", "--tolerance", "--shape", "--input",
                         "--inputs", "--threads", "--disable"},
                        "the passes are the same for every model");
    return print_passes(talk);
  }
  if (flags.source.empty()) throw_invalid("inspect: name a model, or ask for --passes");
  if (!flags.source.ends_with(".onnx")) return inspect_artefact(command, flags, talk);
  if (!flags.bisect) {
    warn_without_effect(talk, command, {"--tolerance", "--input", "--inputs", "--threads"},
                        "only --bisect runs the model");
  }
  warn_without_effect(talk, command, {"--verify"}, "only artefacts hold sample outputs");
  warn_without_effect(talk, command, {"--report"},
                      "an ONNX file has no report; 'optimize' makes one");
  const OptimizeOptions o = options(flags.model);
  if (flags.bisect) return print_bisection(flags, o, talk);
  const Inspection inspection = inspect(flags.source, o);
  if (flags.rules) return print_rules(inspection, talk);
  const std::string& text = flags.before ? inspection.before : inspection.after;
  if (talk.json) {
    print_json({{"stage", flags.before ? "before" : "after"}, {"text", text}});
  } else {
    fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_inspect(Command& command, const Context& context) {
  auto flags = std::make_shared<InspectFlags>();
  add_option(command, "source", &flags->source, "FILE",
             "An ONNX file (shown after the passes) or an artefact");
  const char* const group = "Show";
  add_flag(command, "--passes", &flags->passes, "List the passes in the order they run",
           {.group = group});
  add_flag(command, "--rules", &flags->rules, "List which rule changed which node",
           {.group = group});
  add_flag(command, "--before", &flags->before, "Show the model before the passes",
           {.group = group});
  add_flag(command, "--report", &flags->report, "Print an artefact's report as JSON",
           {.group = group});
  add_flag(command, "--verify", &flags->verify,
           "Run an artefact on its sample inputs, and fail unless the outputs are those stored",
           {.group = group});
  add_flag(command, "--bisect", &flags->bisect, "Find the rewrite that changes the outputs",
           {.group = group});
  add_option(command, "--tolerance", &flags->tolerance, "RATIO",
             "For --bisect: difference allowed, relative to an output's largest value",
             {.group = group, .show_default = true});
  add_input_flags(command, flags->model);
  add_threads_flag(command, flags->model);
  add_disable_flag(command, flags->model);
  return [&command, flags, talk = context.talk] { return run_inspect(command, *flags, *talk); };
}

}  // namespace stretto::cli
