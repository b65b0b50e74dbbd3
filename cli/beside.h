// Timing a model beside other engines, fairly: every engine, Stretto too, in a process of its own
// with the same inputs and threads (python -m stretto.peers serve), outputs compared first, taking
// turns, each timing itself.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/stretto.h"

namespace stretto::cli {

struct BesideOptions {
  std::string onnx_path;  // empty: the model is an artefact, so there is nothing to compare with
  std::map<std::string, Shape> shapes;   // of inputs whose file leaves them open
  std::map<std::string, Tensor> inputs;  // missing ones are made up
  // Names as in stretto.peers; empty: every one that is installed; "none": nobody.
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
  std::string failure;  // why it was not timed; empty when it was
};

// Stretto first, then the peers in the order given. An engine that is absent, fails or computes
// something else says so in its `failure`; nothing is thrown for it. Without a usable Python,
// Stretto is timed in this process.
std::vector<EngineResult> time_beside(const Model& model, const BesideOptions& options);

}  // namespace stretto::cli
