// stretto bench m.onnx --threads 1,2 --vs onnxruntime,openvino,torch,ncnn,mnn
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>

#include "beside.h"
#include "comparison.h"
#include "model_options.h"
#include "progress.h"
#include "stretto/base/cpu.h"
#include "stretto/base/file.h"

namespace stretto::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string source, json_file;
  std::vector<int> threads{0};
  std::vector<std::string> peers;
  double seconds = 3;
};

int run(const Flags& flags, const Context& context) {
  const OptimizeOptions base = options(flags.model);
  const bool from_onnx = flags.source.ends_with(".onnx");
  if (!from_onnx && !flags.peers.empty() && flags.peers[0] != "none") {
    throw_invalid("bench: --vs needs the ONNX file; other engines cannot read {}", flags.source);
  }
  nlohmann::json measured = nlohmann::json::array();
  for (int threads : flags.threads) {
    OptimizeOptions o = base;
    o.threads = threads;
    o.profile = false;
    const Model model = open_model(flags.source, o);
    if (threads != 0 && model.threads() != threads) {
      throw_invalid("bench: {} was optimised for {} threads; name the ONNX file for {}",
                    flags.source, model.threads(), threads);
    }
    const std::vector<EngineResult> results = time_beside(
        model, {.onnx_path = from_onnx ? flags.source : "",
                .shapes = o.shapes,
                .inputs = o.inputs,
                .peers = flags.peers.empty() ? std::vector<std::string>{"none"} : flags.peers,
                .python = context.python,
                .seconds = flags.seconds,
                .verify = o.verify,
                .progress = progress_bar()});
    end_progress();
    if (measured.empty()) {
      fmt::print("{}, {}, {} cores\n", cpu_info().model, isa_name(usable_isa()), cpu_info().cores);
    }
    fmt::print("\n{} thread{}\n", model.threads(), model.threads() == 1 ? "" : "s");
    print_comparison(results);
    nlohmann::json entry{{"threads", model.threads()},
                         {"median_ms", results[0].times.median_ms()},
                         {"p95_ms", results[0].times.p95_ms()}};
    add_comparison(entry, results);
    measured.push_back(std::move(entry));
  }
  if (!flags.json_file.empty()) write_file(flags.json_file, measured.dump(1) + "\n");
  return kOk;
}

}  // namespace

std::function<int()> set_up_bench(CLI::App& app, const Context& context) {
  auto flags = std::make_shared<Flags>();
  app.add_option("source", flags->source, "An ONNX file or an artefact")->required();
  app.add_option("--threads", flags->threads, "Thread counts: 1,2 (0: every core)")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024));
  app.add_option("--vs", flags->peers, "Engines: onnxruntime,openvino,torch,ncnn,mnn")
      ->delimiter(',');
  app.add_option("--seconds", flags->seconds, "Of timing per engine and thread count")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--json", flags->json_file, "Also write the numbers to this file");
  add_model_flags(app, flags->model, ThreadsFlag::kNo);
  return [flags, context] { return run(*flags, context); };
}

}  // namespace stretto::cli
