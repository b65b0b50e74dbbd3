// stretto bench m.onnx --threads 1,2 --vs onnxruntime,openvino,torch,ncnn,mnn
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>

#include "beside.h"
#include "model_options.h"
#include "progress.h"
#include "stretto/base/cpu.h"
#include "stretto/base/file.h"
#include "table.h"

namespace stretto::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string source, json_file;
  std::vector<int> threads{0};
  std::vector<std::string> peers;
  double seconds = 3;
};

std::string row_note(const PeerResult& result) {
  if (!result.error.empty()) return result.error;
  return result.version + (result.setting.empty() ? "" : ", " + result.setting);
}

void print_table(int threads, const std::vector<PeerResult>& results) {
  fmt::print("\n{} thread{}\n", threads, threads == 1 ? "" : "s");
  Table table({"engine", ">median ms", ">p95 ms", ">runs/s", ">Stretto is", ">difference",
               ">memory", "version and setting"});
  const double ours = results.front().times.median_ms();
  for (const PeerResult& result : results) {
    const bool timed = result.error.empty(), self = &result == &results.front();
    const double median = result.times.median_ms();
    table.row({result.name, timed ? milliseconds(median) : "-",
               timed ? milliseconds(result.times.p95_ms()) : "-",
               timed ? fmt::format("{:.1f}", 1e3 / median) : "-",
               timed && !self ? fmt::format("{:.2f}x", median / ours) : "-",
               result.difference >= 0 ? fmt::format("{:.1e}", result.difference) : "-",
               result.peak_bytes > 0 ? mebibytes(static_cast<double>(result.peak_bytes)) : "-",
               row_note(result)});
  }
  fmt::print("{}", table.text());
}

int run(const Flags& flags, const Context& context) {
  const OptimizeOptions base = options(flags.model);
  const bool from_onnx = flags.source.ends_with(".onnx");
  if (!from_onnx && !flags.peers.empty() && flags.peers[0] != "none") {
    throw_invalid("bench: --vs needs the ONNX file; other engines cannot read {}", flags.source);
  }
  fmt::print("{}, {}, {} cores\n", cpu_info().model, isa_name(usable_isa()), cpu_info().cores);
  nlohmann::json measured = nlohmann::json::array();
  for (int threads : flags.threads) {
    OptimizeOptions o = base;
    o.threads = threads;
    o.profile = false;
    const Model model = open_model(flags.source, o);
    const std::vector<PeerResult> results = time_beside(
        model, {.onnx_path = flags.source,
                .inputs = o.inputs,
                .peers = flags.peers.empty() ? std::vector<std::string>{"none"} : flags.peers,
                .python = context.python,
                .seconds = flags.seconds,
                .progress = progress_bar()});
    end_progress();
    print_table(model.threads(), results);
    nlohmann::json entry{{"threads", model.threads()},
                         {"median_ms", results[0].times.median_ms()},
                         {"p95_ms", results[0].times.p95_ms()}};
    add_peers(entry, results);
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
