// Timing a model beside other engines, fairly: every engine in a process of its own with the same
// inputs and threads, outputs compared first, rounds interleaved, each engine timing itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/stretto.h"

namespace stretto::cli {

struct BesideOptions {
  std::string onnx_path;
  std::map<std::string, Tensor> inputs;  // missing ones are made up
  // Names as in stretto.peers; empty: every one that is installed; "none": nobody.
  std::vector<std::string> peers;
  std::string python = "python3";
  double seconds = 3;  // of timing per engine
  std::function<void(std::string_view stage, double fraction)> progress;
};

struct Times {
  std::vector<double> ms;  // of single runs
  double median_ms() const;
  double p95_ms() const;
};

// One engine, Stretto itself first.
struct PeerResult {
  std::string name, version, setting;
  Times times;
  int64_t peak_bytes = 0;  // its process grew by this much; 0 when unknown
  double difference = -1;  // from Stretto's outputs, of the largest value; -1 when not compared
  std::string error;       // why it was not timed; empty when it was
};

// Stretto first, then the peers in the order given. A peer that is absent or fails says so in its
// `error`; nothing is thrown for it.
std::vector<PeerResult> time_beside(const Model& model, const BesideOptions& options);

// Writes the peers (all but Stretto) to report["latency"]["peers"].
void add_peers(nlohmann::json& report, const std::vector<PeerResult>& results);

}  // namespace stretto::cli
