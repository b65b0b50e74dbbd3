// stretto bench m.onnx --threads 1,2 --peers onnxruntime,openvino
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "comparison.h"
#include "model_options.h"
#include "peers.h"
#include "progress.h"
#include "stretto/base/cpu.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct BenchFlags {
  ModelFlags model;
  std::string source;
  std::vector<int> threads{0};
  std::vector<std::string> peers{"none"};
  double seconds = 3;
};

json machine() {
  return {
      {"model", cpu_info().model}, {"isa", isa_name(usable_isa())}, {"cores", cpu_info().cores}};
}

Comparison time_with(const Model& model, const BenchFlags& flags, const OptimizeOptions& o,
                     const Context& context) {
  const bool from_onnx = flags.source.ends_with(".onnx");
  Comparison comparison = time_with_peers(model, {.onnx_path = from_onnx ? flags.source : "",
                                                  .inputs = o.inputs,
                                                  .peers = flags.peers,
                                                  .python = context.python,
                                                  .seconds = flags.seconds,
                                                  .verify = o.verify,
                                                  .progress = progress_bar(*context.talk)});
  end_progress();
  return comparison;
}

std::vector<int> each_once(const std::vector<int>& values) {
  std::vector<int> once;
  for (const int value : values) {
    if (std::find(once.begin(), once.end(), value) == once.end()) once.push_back(value);
  }
  return once;
}

int run_bench(const Command& command, BenchFlags flags, const Context& context) {
  const Talk& talk = *context.talk;
  const OptimizeOptions base = options(flags.model);
  if (!flags.source.ends_with(".onnx")) {
    if (flags.peers != std::vector<std::string>{"none"}) {
      throw_invalid("bench: --peers needs the ONNX file; other engines cannot read {}",
                    flags.source);
    }
    warn_if_optimized(talk, command, flags.source);
  }
  flags.peers = check_peers(flags.peers, context.python);
  json measured = json::array();
  bool first = true;
  for (const int threads : each_once(flags.threads)) {
    OptimizeOptions o = base;
    o.threads = threads;
    o.profile = false;
    const Model model = open_model(flags.source, o, talk);
    const Comparison comparison = time_with(model, flags, o, context);
    if (talk.json) {
      json entry = to_json(comparison);
      entry["threads"] = model.threads();
      measured.push_back(std::move(entry));
      continue;
    }
    if (std::exchange(first, false)) {
      fmt::print("{}, {}, {} cores\n", cpu_info().model, isa_name(usable_isa()), cpu_info().cores);
    }
    fmt::print("\n{} thread{}\n", model.threads(), model.threads() == 1 ? "" : "s");
    print_comparison(comparison);
    std::fflush(stdout);
  }
  if (talk.json) {
    print_json({{"source", flags.source}, {"machine", machine()}, {"measured", measured}});
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_bench(Command& command, const Context& context) {
  auto flags = std::make_shared<BenchFlags>();
  add_option(command, "source", &flags->source, "FILE", "An ONNX file or an artefact",
             {.required = true});
  add_option(command, "--peers", &flags->peers, "none|installed|PEER,...",
             "Engines to compare with; 'stretto peers' lists them", {.group = "Timing"});
  add_option(command, "--seconds", &flags->seconds, "SECONDS",
             "Time to spend per engine and thread count",
             {.group = "Timing", .show_default = true, .range = Range{0.01, 3600.0}});
  add_input_flags(command, flags->model);
  add_lengths_flag(command, flags->model);
  add_preprocess_flag(command, flags->model);
  add_option(command, "--threads", &flags->threads, "N,...",
             "Thread counts to try, like 1,2; 0: one per core this process may use",
             {.group = "Tuning", .range = Range{0, 1024}});
  add_tuning_flags(command, flags->model);
  return [&command, flags, context] { return run_bench(command, *flags, context); };
}

}  // namespace stretto::cli
