#include "beside.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "model_options.h"
#include "npz.h"
#include "stretto/base/clock.h"
#include "verbs.h"
#include "worker_process.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

constexpr double kLoadTimeout_s = 300;  // compilers among the peers take minutes
constexpr double kListTimeout_s = 60;
constexpr int kRounds = 6;
// Engines spin for some milliseconds after a run; the next one must not share its core with that.
constexpr auto kSettle = std::chrono::milliseconds(30);

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "stretto-XXXXXX";
    if (!mkdtemp(pattern.data())) throw EnvironmentProblem(pattern + ": cannot be made");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// A worker's answer; an object with "error" when it is silent, gone or talks nonsense.
json answer(WorkerProcess& process, double timeout_s) {
  const auto line = process.receive(timeout_s);
  if (!line) return {{"error", "the process ended or did not answer"}};
  const json parsed = json::parse(*line, nullptr, false);
  if (!parsed.is_object()) return {{"error", "unexpected answer: " + *line}};
  return parsed;
}

std::vector<std::string> installed_peers(const std::string& python) {
  std::vector<std::string> names;
  try {
    WorkerProcess process({python, "-m", "stretto.peers", "list"});
    const json reply = answer(process, kListTimeout_s);
    for (const json& peer : reply.value("peers", json::array())) {
      if (peer.value("installed", false)) names.push_back(peer.value("name", ""));
    }
  } catch (const EnvironmentProblem&) {
    // No Python, so no peers.
  }
  return names;
}

struct Peer {
  std::unique_ptr<WorkerProcess> process;
  PeerResult result;
  std::string outputs_file;
};

Peer start(const std::string& name, int threads, const BesideOptions& options,
           const TemporaryFolder& folder) {
  Peer peer{
      .process = nullptr, .result = {.name = name}, .outputs_file = folder.file(name + ".npz")};
  try {
    peer.process = std::make_unique<WorkerProcess>(std::vector<std::string>{
        options.python, "-m", "stretto.peers", "serve", name, "--model", options.onnx_path,
        "--inputs", folder.file("inputs.npz"), "--outputs", peer.outputs_file, "--threads",
        fmt::format("{}", threads)});
    const json reply = answer(*peer.process, kLoadTimeout_s);
    peer.result.error = reply.value("error", "");
    peer.result.version = reply.value("version", "");
    peer.result.setting = reply.value("setting", "");
    if (reply.value("error", "") == "the process ended or did not answer") {
      peer.result.error = fmt::format(
          "{} -m stretto.peers did not start; pip install stretto in "
          "that Python",
          options.python);
    }
  } catch (const EnvironmentProblem& e) {
    peer.result.error = e.what();
  }
  return peer;
}

double largest_difference(const std::vector<Tensor>& ours,
                          const std::map<std::string, Tensor>& theirs) {
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto at = theirs.find(fmt::format("{}", i));
    if (at == theirs.end() || at->second.count() != ours[i].count()) {
      return std::numeric_limits<double>::infinity();
    }
    const std::vector<double> a = ours[i].as_doubles(), b = at->second.as_doubles();
    double largest = 0, apart = 0;
    for (size_t j = 0; j < a.size(); ++j) {
      if (std::isnan(a[j]) && std::isnan(b[j])) continue;
      largest = std::max(largest, std::abs(a[j]));
      apart = std::isnan(a[j] - b[j]) && a[j] != b[j] ? std::numeric_limits<double>::infinity()
                                                      : std::max(apart, std::abs(a[j] - b[j]));
    }
    worst = std::max(worst, apart == 0 ? 0 : apart / largest);
  }
  return worst;
}

void time_peer(Peer& peer, double seconds) {
  if (!peer.result.error.empty()) return;
  if (!peer.process->send(fmt::format("time {}", seconds))) {
    peer.result.error = "the process ended";
    return;
  }
  const json reply = answer(*peer.process, kLoadTimeout_s);
  peer.result.error = reply.value("error", "");
  for (const json& ms : reply.value("ms", json::array())) {
    peer.result.times.ms.push_back(ms.get<double>());
  }
  peer.result.peak_bytes = reply.value("peak_bytes", int64_t{0});
}

void time_ourselves(Session& session, std::span<const Tensor> inputs, double seconds,
                    Times& times) {
  std::vector<const void*> in;
  for (const Tensor& tensor : inputs) in.push_back(tensor.data());
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (const TensorSpec& spec : session.model().outputs()) {
    outputs.emplace_back(spec.dtype, spec.shape);
    out.push_back(outputs.back().mutable_data());
  }
  session.run(std::span<const void* const>(in), std::span<void* const>(out));
  const double start = now_s();
  do {
    const double begin = now_s();
    session.run(std::span<const void* const>(in), std::span<void* const>(out));
    times.ms.push_back((now_s() - begin) * 1e3);
  } while (now_s() - start < seconds);
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double Times::median_ms() const { return quantile(ms, 0.5); }
double Times::p95_ms() const { return quantile(ms, 0.95); }

std::vector<PeerResult> time_beside(const Model& model, const BesideOptions& options) {
  const auto report = [&](std::string_view stage, double fraction) {
    if (options.progress) options.progress(stage, fraction);
  };
  const TemporaryFolder folder;
  const std::vector<Tensor> inputs = arrange_inputs(model, options.inputs, nullptr);
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(model.inputs()[i].name, inputs[i]);
  write_npz(folder.file("inputs.npz"), named);

  std::vector<std::string> names = options.peers;
  if (names.empty()) names = installed_peers(options.python);
  if (names == std::vector<std::string>{"none"}) names.clear();

  Session session(model);
  const std::vector<Tensor> ours = session.run(inputs);
  PeerResult stretto{.name = "stretto", .version = std::string(version())};
  std::vector<Peer> peers;
  for (size_t i = 0; i < names.size(); ++i) {
    report(names[i], static_cast<double>(i) / static_cast<double>(names.size()));
    peers.push_back(start(names[i], model.threads(), options, folder));
    Peer& peer = peers.back();
    if (!peer.result.error.empty()) continue;
    peer.result.difference = largest_difference(ours, read_npz(peer.outputs_file));
  }
  for (int round = 0; round < kRounds; ++round) {
    report("timing", static_cast<double>(round) / kRounds);
    std::this_thread::sleep_for(kSettle);
    time_ourselves(session, inputs, options.seconds / kRounds, stretto.times);
    for (Peer& peer : peers) {
      std::this_thread::sleep_for(kSettle);
      time_peer(peer, options.seconds / kRounds);
    }
  }
  std::vector<PeerResult> results{std::move(stretto)};
  for (Peer& peer : peers) results.push_back(std::move(peer.result));
  return results;
}

void add_peers(json& report, const std::vector<PeerResult>& results) {
  json peers = json::array();
  for (const PeerResult& result : results) {
    if (result.name == "stretto") continue;
    json peer{{"name", result.name}, {"version", result.version}, {"setting", result.setting}};
    if (result.error.empty()) {
      peer["median_ms"] = result.times.median_ms();
      peer["p95_ms"] = result.times.p95_ms();
      peer["runs"] = result.times.ms.size();
      peer["peak_bytes"] = result.peak_bytes;
      peer["difference"] = result.difference;
    } else {
      peer["error"] = result.error;
    }
    peers.push_back(std::move(peer));
  }
  report["latency"]["peers"] = std::move(peers);
}

}  // namespace stretto::cli
