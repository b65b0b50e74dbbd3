// Plays one all-reduce (or other collective) of all ranks over a virtual network: the schedules of
// the engine, step by step, with as many units under way on each rank as the engine allows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/collective/unit_window.h"

namespace stretto::comm {

struct OperationOptions {
  LinkModel link;
  double element_bytes = 4;
  int64_t window_bytes = kWindowBytes;
  // Of a coded problem: what crosses the wire has the size of its encoding, and a rank's processor
  // takes codec_byte_s for each byte of fp32 that it encodes or decodes.
  const Codec* codec = nullptr;
  double codec_byte_s = 0.1e-9;
  // Steps of all ranks that are played. An operation with more plays its first units only; time,
  // bytes and messages of the others are those of the last ones that were played.
  int64_t most_steps = 8'000'000;
};

struct OperationRun {
  std::string_view algorithm;
  double seconds = 0;
  int64_t units = 0;
  int64_t played_units = 0;  // 0: one unit has more than most_steps, and `seconds` is the estimate
                             // of the cost model, bytes and messages too
  double estimate_s = 0;     // of the cost model, which chooses algorithms
  // No algorithm can be faster: bound_bytes through a card, and the way of the last of them. 0:
  // there is one host.
  double bound_s = 0;
  double bound_bytes = 0;  // through a card, each way: 2 (m - 1) / m of an all-reduced tensor
  double card_bytes = 0;   // through the busiest card, in its busier direction
  double card_messages = 0;
  double messages = 0;       // of all ranks, also inside hosts
  double rank_messages = 0;  // sent by the busiest rank
  int peers = 0;             // to which the busiest rank sends in one unit
};

// The problem's rank is ignored; blocks have equal sizes. Needs a codec if the problem is coded.
OperationRun simulate_operation(const Problem& problem, const Algorithm& algorithm,
                                const OperationOptions& options);

// The bytes of a step's message, or of what it encodes; `codec` of coded problems.
int64_t bytes_of(const Step& step, int64_t element_bytes, const Codec* codec);

// What each rank sends to others in the whole operation, counted over its schedules. Bytes are
// without headers.
struct RankTraffic {
  int64_t bytes = 0, messages = 0;
};
std::vector<RankTraffic> count_traffic(const Problem& problem, const Algorithm& algorithm,
                                       int64_t element_bytes, const Codec* codec = nullptr);

}  // namespace stretto::comm
