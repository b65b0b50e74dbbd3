// Compares a model with its peers (other engines). Every engine, Stretto too, runs in a process of
// its own (python -m stretto.peers serve) with the same inputs and threads. Outputs are compared
// first; then the engines run in turns, and each measures its own time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/other_work.h"
#include "stretto/stretto.h"

namespace stretto::cli {

struct PeerOptions {
  std::string onnx_path;  // empty: the model is an artefact, so there is nothing to compare with
  std::map<std::string, Tensor> inputs;  // missing ones are made up
  // Names as in stretto.peers; or one word: "none", or "installed" for every one that is.
  std::vector<std::string> peers;
  std::string python = "python3";
  double seconds = 3;  // of timing per engine
  bool verify = true;  // compare all outputs with the double-precision reference
  std::function<void(std::string_view stage, double fraction)> progress;
};

struct Times {
  std::vector<double> ms;  // of single runs
  double median_ms() const;
  double p95_ms() const;
};

struct EngineResult {
  std::string name, version, setting;
  Times times;
  // Most memory its process has taken, interpreter included; 0 when unknown.
  int64_t peak_bytes = 0;
  // Largest error against the reference, relative to the output's largest value; -1 when not
  // compared.
  double error = -1;
  std::string failure;                  // why it was not timed; empty when it was
  std::vector<std::string> last_words;  // the last lines that its process wrote to standard error
};

// A row of stretto.peers.
struct Peer {
  std::string name, version, about;
  std::vector<std::string> packages;  // as pip names them
  bool installed = false;             // `version` is empty where not
  bool best = false;                  // runs at its fastest fp32 setting, not as it comes
};

// Every peer there is. Throws EnvironmentProblem when `python` does not start or has no stretto
// package.
std::vector<Peer> list_peers(const std::string& python);

// What --peers names, each once. Throws InvalidArgument with the list for a name that is none, and
// EnvironmentProblem as list_peers(), which it asks unless `names` are "none" or "installed".
std::vector<std::string> check_peers(const std::vector<std::string>& names,
                                     const std::string& python);

struct Comparison {
  std::vector<EngineResult> engines;
  OtherWork other_work;  // while they were timed
};

// Stretto first, then the peers in the order given. An engine that is absent, fails or computes
// something else says so in its `failure`; nothing is thrown for it. Without a usable Python,
// Stretto is timed in this process.
Comparison time_with_peers(const Model& model, const PeerOptions& options);

}  // namespace stretto::cli
