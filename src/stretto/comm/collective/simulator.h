// For tests: runs an operation of all ranks in one thread, taking at every point a random one of
// the things that may happen next, and counts what crosses each host's network card.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/reduce/reduce.h"

namespace stretto::comm {

// One rank's view; the buffers belong to the caller.
struct SimulatedRank {
  Problem problem;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  float* residual = nullptr;  // null: no error feedback
};

struct SimulatedTraffic {
  std::vector<int64_t> sent, received;  // by host, in order of lowest rank: bytes between hosts
  std::vector<int64_t> messages_sent, messages_received;  // the same
  int64_t messages = 0;
  int rounds = 0;  // the longest chain of messages that wait for one another

  // Through the busiest card in its busier direction.
  int64_t busiest() const;  // bytes
  int64_t most_messages() const;
};

struct SimulatorOptions {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const Codec* codec = nullptr;
  int units_in_flight = 3;
  Isa isa = kIsas.front();
};

// A send copies its bytes at some point between its start and its end, so a schedule that lacks a
// wait gives wrong results under some order. Throws std::runtime_error when the schedules do not
// fit together: steps that never get ready, a transfer that nobody takes, two with one tag, or
// sizes that differ.
SimulatedTraffic simulate(const Algorithm& algorithm, std::vector<SimulatedRank>& ranks,
                          const SimulatorOptions& options, std::mt19937& random);

}  // namespace stretto::comm
