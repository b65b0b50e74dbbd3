#include "peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "model_options.h"
#include "npz.h"
#include "signals.h"
#include "stretto/base/clock.h"
#include "stretto/ir/operator.h"
#include "stretto/runtime/lengths.h"
#include "stretto/runtime/model_state.h"
#include "worker_process.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

constexpr double kLoadTimeout_s = 900;  // compilers among the peers take minutes
constexpr double kListTimeout_s = 60;
constexpr int kRounds = 6;
constexpr int kWarmUpRuns = 2;
constexpr double kWarmUpMs = 20;
// An engine's threads may spin for this long after a run.
constexpr double kSettle_s = 0.5;
// fp32 engines land between 1e-6 and 1e-4 of the largest value, bf16 or fp16 ones above 2e-3.
constexpr double kTolerance = 1e-3;
constexpr std::string_view kNoAnswer = "no answer";
constexpr size_t kLastLines = 10;
constexpr size_t kLongestLine = 300;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "stretto-XXXXXX";
    if (!mkdtemp(pattern.data())) throw EnvironmentProblem(pattern + ": cannot be made");
    path_ = pattern;
    on_signal_.emplace([this] { remove(); });
  }
  ~TemporaryFolder() {
    on_signal_.reset();
    remove();
  }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path path_;
  std::optional<OnSignal> on_signal_;
};

// A worker's answer; an object with "failed" when there is none or it is no JSON object.
json ask(WorkerProcess& process, const json& request, double timeout_s) {
  const auto line = process.send(request.dump()) ? process.receive(timeout_s) : std::nullopt;
  if (!line) return {{"failed", kNoAnswer}};
  const json parsed = json::parse(*line, nullptr, false);
  if (!parsed.is_object()) return {{"failed", "unexpected answer: " + *line}};
  return parsed;
}

std::vector<std::string> installed_peers(const std::string& python) {
  std::vector<std::string> names;
  try {
    for (const Peer& peer : list_peers(python)) {
      if (peer.installed && peer.best) names.push_back(peer.name);
    }
  } catch (const EnvironmentProblem&) {
    // Without Python there are no peers.
  }
  return names;
}

struct Engine {
  std::unique_ptr<WorkerProcess> process;
  EngineResult result;
  bool skipped = false;  // not installed, or not for this model
  std::string outputs_file, words_file;
};

// Takes over what the process of a failed engine wrote.
void keep_last_words(Engine& engine) {
  if (engine.result.failure.empty() || engine.skipped) return;
  std::ifstream file(engine.words_file);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    lines.push_back(line.substr(0, kLongestLine));
    if (lines.size() > kLastLines) lines.pop_front();
  }
  engine.result.last_words.assign(lines.begin(), lines.end());
}

struct Job {
  std::string model;
  std::vector<std::string> outputs;
  int threads;
};

// Says how a process ended that no longer answers.
void note_end(Engine& engine) {
  if (engine.result.failure != kNoAnswer) return;
  const std::string end = engine.process->how_it_ended();
  engine.result.failure = end.empty() ? "its process did not answer in time" : "its process " + end;
}

Engine start(const std::string& name, const Job& job, const PeerOptions& options,
             const TemporaryFolder& folder) {
  Engine engine{.result = {.name = name},
                .outputs_file = folder.file(name + ".npz"),
                .words_file = folder.file(name + ".stderr")};
  try {
    engine.process = std::make_unique<WorkerProcess>(
        std::vector<std::string>{options.python, "-m", "stretto.peers", "serve"},
        engine.words_file);
  } catch (const EnvironmentProblem& e) {
    engine.result.failure = e.what();
    return engine;
  }
  const json reply = ask(*engine.process,
                         {{"do", "load"},
                          {"engine", name},
                          {"model", job.model},
                          {"inputs", folder.file("inputs.npz")},
                          {"outputs", job.outputs},
                          {"threads", job.threads},
                          {"results", engine.outputs_file}},
                         kLoadTimeout_s);
  engine.skipped = reply.contains("skipped");
  engine.result.failure = reply.value("skipped", reply.value("failed", ""));
  engine.result.version = reply.value("version", "");
  engine.result.setting = reply.value("setting", "");
  engine.result.peak_bytes = reply.value("peak_bytes", int64_t{0});
  note_end(engine);
  return engine;
}

double largest_error(const std::vector<Tensor>& expected,
                     const std::map<std::string, Tensor>& got) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto at = got.find(fmt::format("{}", i));
    if (at == got.end() || at->second.count() != expected[i].count()) {
      return std::numeric_limits<double>::infinity();
    }
    const std::vector<double> want = expected[i].as_doubles(), have = at->second.as_doubles();
    double largest = 0, apart = 0;
    for (size_t j = 0; j < want.size(); ++j) {
      if (want[j] == have[j] || (std::isnan(want[j]) && std::isnan(have[j]))) continue;
      const double difference = std::abs(want[j] - have[j]);
      if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
      apart = std::max(apart, difference);
    }
    for (double value : want) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    if (apart > 0) worst = std::max(worst, apart / std::max(largest, 1e-30));
  }
  return worst;
}

// `mask`: by which a model with lengths tells tokens from padding, where engines may differ.
void check(Engine& engine, const std::vector<Tensor>& expected, const Tensor& mask) {
  EngineResult& result = engine.result;
  if (!result.failure.empty()) return;
  std::map<std::string, Tensor> got = read_npz(engine.outputs_file);
  if (mask.defined()) {
    for (auto& [name, output] : got) output = runtime::without_padding(output, mask);
  }
  result.error = largest_error(expected, got);
  if (result.error > kTolerance) {
    result.failure =
        fmt::format("wrong result: its error is {:.1e} of the largest value, more than {:.0e}",
                    result.error, kTolerance);
  }
}

// Whether runs give different results, so that none can be compared.
bool is_random(const Model& model, const std::vector<Tensor>& inputs) {
  if (!model.staged()) {
    return std::ranges::any_of(model.state().graph->nodes,
                               [](const ir::Node& node) { return node.op->random; });
  }
  Session session(model);
  const std::vector<Tensor> first = session.run(inputs), second = session.run(inputs);
  return !std::ranges::equal(first, second, [](const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  });
}

void time_engine(Engine& engine, double seconds) {
  if (!engine.result.failure.empty()) return;
  const json reply = ask(
      *engine.process,
      {{"do", "burst"}, {"warm_up", kWarmUpRuns}, {"warm_up_ms", kWarmUpMs}, {"seconds", seconds}},
      kLoadTimeout_s);
  engine.result.failure = reply.value("failed", "");
  note_end(engine);
  for (const json& ms : reply.value("ms", json::array())) {
    engine.result.times.ms.push_back(ms.get<double>());
  }
  engine.result.peak_bytes = reply.value("peak_bytes", engine.result.peak_bytes);
  engine.process->wait_until_idle(kSettle_s);
}

// What is timed has the shapes of the inputs here, and takes tensors as peers do.
Model with_fixed_shapes(const Model& model) {
  auto state = std::make_shared<Model::State>(model.state());
  if (!state->by_shape || state->by_shape->lengths().empty()) state->by_shape = nullptr;
  state->pictures = nullptr;
  return Model(std::move(state));
}

// Without a worker process.
EngineResult time_here(const Model& model, const std::vector<Tensor>& inputs, double seconds) {
  Session session(model);
  std::vector<const void*> in;
  for (const Tensor& tensor : inputs) in.push_back(tensor.data());
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (const TensorSpec& spec : model.outputs()) {
    if (model.staged()) break;  // whose outputs have the shapes that a run gives them
    outputs.emplace_back(spec.dtype, spec.shape);
    out.push_back(outputs.back().mutable_data());
  }
  const auto run = [&] {
    if (model.staged()) return void(session.run(inputs));
    session.run(std::span<const void* const>(in), std::span<void* const>(out));
  };
  for (int i = 0; i < kWarmUpRuns; ++i) run();
  EngineResult result{.name = "stretto", .version = std::string(version())};
  const double start = now_s();
  do {
    const double begin = now_s();
    run();
    result.times.ms.push_back((now_s() - begin) * 1e3);
  } while (now_s() - start < seconds);
  return result;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

const std::vector<std::string> kNoPeers{"none"}, kInstalledPeers{"installed"};

std::vector<std::string> chosen_peers(const PeerOptions& options) {
  if (options.onnx_path.empty() || options.peers == kNoPeers) return {};
  return options.peers == kInstalledPeers ? installed_peers(options.python) : options.peers;
}

}  // namespace

std::vector<Peer> list_peers(const std::string& python) {
  const TemporaryFolder folder;
  WorkerProcess process({python, "-m", "stretto.peers", "list"}, folder.file("stderr"));
  const json reply = ask(process, json::object(), kListTimeout_s);
  if (!reply.contains("peers")) {
    throw no_package(python);
  }
  std::vector<Peer> peers;
  for (const json& row : reply["peers"]) {
    const json version = row.value("version", json());
    peers.push_back({.name = row.value("name", ""),
                     .version = version.is_string() ? version.get<std::string>() : "",
                     .about = row.value("about", ""),
                     .packages = row.value("packages", std::vector<std::string>{}),
                     .installed = version.is_string(),
                     .best = row.value("setting", "") == "best"});
  }
  return peers;
}

std::vector<std::string> check_peers(const std::vector<std::string>& names,
                                     const std::string& python) {
  if (names == kNoPeers || names == kInstalledPeers) return names;
  std::vector<std::string> known, chosen;
  for (const Peer& peer : list_peers(python)) known.push_back(peer.name);
  for (const std::string& name : names) {
    if (name == kNoPeers[0] || name == kInstalledPeers[0]) {
      throw_invalid("--peers: '{}' stands alone, not among the names of peers", name);
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw_invalid("--peers: {}: no such peer; there are {}", name, fmt::join(known, ", "));
    }
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
  }
  return chosen;
}

double Times::median_ms() const { return quantile(ms, 0.5); }
double Times::p95_ms() const { return quantile(ms, 0.95); }

Comparison time_with_peers(const Model& any, const PeerOptions& options) {
  const auto report = [&](std::string_view stage, double fraction) {
    if (options.progress) options.progress(stage, fraction);
  };
  const TemporaryFolder folder;
  const std::vector<Tensor> inputs = arrange_inputs(any, options.inputs, nullptr);
  const Model model = with_fixed_shapes(any);
  for (size_t i = 0; i < inputs.size() && !model.staged(); ++i) {
    const TensorSpec& spec = model.inputs()[i];
    if (inputs[i].shape() == spec.shape) continue;
    throw_invalid("input {}: expected {}, the shape that the model was optimised for, got {}",
                  spec.name, shape_text(spec.shape), shape_text(inputs[i].shape()));
  }
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(model.inputs()[i].name, inputs[i]);
  write_npz(folder.file("inputs.npz"), named);
  Job job{.model = folder.file("model.stretto"), .threads = model.threads()};
  for (const TensorSpec& spec : model.outputs()) job.outputs.push_back(spec.name);

  report("stretto", 0);
  model.save(job.model);
  std::vector<Engine> engines;
  engines.push_back(start("stretto", job, options, folder));
  const std::vector<std::string> names = chosen_peers(options);
  job.model = options.onnx_path;
  for (size_t i = 0; i < names.size(); ++i) {
    report(names[i], static_cast<double>(i) / static_cast<double>(names.size()));
    engines.push_back(start(names[i], job, options, folder));
  }
  // Peers that nobody named are left out if they cannot take this model.
  if (options.peers == kInstalledPeers)
    std::erase_if(engines, [](const Engine& e) { return e.skipped; });
  if (options.verify && !options.onnx_path.empty() && !is_random(model, inputs)) {
    report("reference", 0);
    OptimizeOptions reference{.threads = model.threads()};
    for (const TensorSpec& spec : model.inputs()) reference.shapes[spec.name] = spec.shape;
    std::vector<Tensor> expected = run_reference(options.onnx_path, reference, inputs);
    const auto& by_shape = model.state().by_shape;
    Tensor mask;
    if (by_shape && !by_shape->lengths().empty()) {
      mask = inputs[static_cast<size_t>(runtime::find_mask(by_shape->lengths(), model.inputs()))];
      for (Tensor& output : expected) output = runtime::without_padding(output, mask);
    }
    for (Engine& engine : engines) check(engine, expected, mask);
  }

  std::vector<Engine*> order;
  for (Engine& engine : engines) order.push_back(&engine);
  std::vector<pid_t> workers;
  for (const Engine& engine : engines) {
    if (engine.process) workers.push_back(engine.process->pid());
  }
  const OtherWorkMeter meter(std::move(workers));
  std::mt19937 random(0);
  for (int round = 0; round < kRounds; ++round) {
    report("timing", static_cast<double>(round) / kRounds);
    // In changing order, so that no engine always follows the same one.
    std::shuffle(order.begin(), order.end(), random);
    for (Engine* engine : order) time_engine(*engine, options.seconds / kRounds);
  }
  Comparison comparison;
  for (Engine& engine : engines) {
    keep_last_words(engine);
    comparison.engines.push_back(std::move(engine.result));
  }
  EngineResult& ours = comparison.engines.front();
  if (!ours.failure.empty()) ours = time_here(model, inputs, options.seconds);
  comparison.other_work = meter.read();
  return comparison;
}

}  // namespace stretto::cli
