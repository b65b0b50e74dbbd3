// Plays rounds of the negotiation of names (negotiate/negotiate.h) between all ranks of a job: the
// Negotiator of every rank, its real messages, over a virtual network.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/comm/collective/algorithm.h"

namespace stretto::comm {

struct NegotiationRound {
  double seconds = 0;         // until every rank knows the result, from the moment all begin
  int64_t rank_messages = 0;  // sent by each rank
  double rank_bytes = 0;      // sent by the busiest rank
  int64_t agreed = 0;         // names
};

// Every rank submits `names` names, each in an order of its own, `steps` times, and begins a round
// at once; a round follows for as long as names are open. Messages have the lengths that the engine
// gives them: a rank wakes those that it will exchange with, and pads short messages
// (negotiate/unordered_rounds.cc). Adding up messages takes no virtual time.
std::vector<NegotiationRound> simulate_negotiation(const Placement& placement, int names, int steps,
                                                   const LinkModel& link);

}  // namespace stretto::comm
