// The schedules of all ranks for one unit, in the form in which they are played: what each step
// costs, which steps follow it, and which receive takes each send.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/comm/simulate/operation.h"

namespace stretto::comm {

struct UnitShape {
  struct Step {
    Action action = Action::kSend;
    uint16_t waits = 0;
    int32_t peer = -1;
    uint32_t taker = 0;  // of a send: the receiving step
    float work = 0;      // bytes of a send; seconds of a sum, copy or codec
    uint32_t first_follower = 0;
  };
  std::vector<Step> steps;  // rank after rank, and one at the end for first_follower
  std::vector<uint32_t> followers;
  std::vector<uint32_t> first_step;  // by rank, and the number of all at the end
  std::vector<int32_t> rank;         // of each step

  int most_peers() const;  // to which one rank sends
};

// Throws InternalError when a message has no receiver or a receiver no message.
UnitShape shape_of_unit(const Problem& problem, const Algorithm& algorithm, int64_t unit,
                        const OperationOptions& options);

}  // namespace stretto::comm
