// The list of algorithms for collectives, and the model that chooses among them before anything was
// measured. Costs: facts and names after Chan et al., "Collective communication: theory, practice,
// and experience", 2007.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stretto/comm/collective/schedule.h"

namespace stretto::comm {

// What an algorithm makes the busiest rank and the busiest network card do for the whole operation.
struct Cost {
  double wire_rounds = 0;   // messages between hosts that wait for one another
  double local_rounds = 0;  // the same inside a host
  // Through the busiest card, in its busier direction: packets of a host's ranks queue up there.
  double wire_messages = 0, wire_elements = 0;
  double local_messages = 0;   // sent by the busiest rank
  double local_elements = 0;   // received inside a host by its busiest rank
  double summed_elements = 0;  // sources added up by the busiest rank
};

// Seconds; measured, or guessed before the first measurement. Local latency is that of ranks which
// look for a message before they sleep, as those that wait for little do.
struct LinkModel {
  double wire_latency_s = 60e-6, wire_message_s = 4e-6, wire_byte_s = 8e-9;
  double local_latency_s = 2e-6, local_message_s = 1e-6, local_byte_s = 0.15e-9;
  double sum_byte_s = 0.05e-9;
};

struct Algorithm {
  std::string_view name;
  // Empty when it can do the problem; else why not.
  std::string (*unfit)(const Problem&);
  // The steps of problem.rank for one unit, 0 <= unit < unit_count(problem).
  Schedule (*schedule)(const Problem&, int64_t unit);
  Cost (*cost)(const Problem&);
};

// Every algorithm of a kind; the first fits every problem.
std::span<const Algorithm> algorithms(Collective kind);

// By name; throws InvalidArgument naming the choices, and Unsupported with the reason when it does
// not fit.
const Algorithm& find_algorithm(const Problem& problem, std::string_view name);

// Bytes of an element: in memory and inside a host, and on the wire, where a codec may shrink it.
struct ElementBytes {
  double local = 4, wire = 4;
};

double estimate_s(const Cost& cost, const LinkModel& link, const ElementBytes& bytes);

// The fitting algorithm with the least estimate. Ranks choose alike when their problems differ in
// `rank` only and they pass the same link; all_to_all has one algorithm.
const Algorithm& choose_algorithm(const Problem& problem, const LinkModel& link,
                                  const ElementBytes& bytes);

}  // namespace stretto::comm
