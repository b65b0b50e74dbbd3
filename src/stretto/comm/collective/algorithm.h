// The list of algorithms for collectives, and the cost model that chooses among them before
// anything is measured. Costs after Chan et al., "Collective communication: theory, practice, and
// experience", 2007.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/collective/schedule.h"

namespace stretto::comm {

// The work of the busiest rank and of the busiest network card for a whole operation.
struct Cost {
  double wire_rounds = 0;   // the longest chain of messages between hosts
  double local_rounds = 0;  // the same inside a host
  // Through the busiest card, in its busier direction, by all ranks of its host.
  double wire_messages = 0, wire_elements = 0;
  double wire_fill_elements = 0;  // of a chain, before its last host gets something
  double local_messages = 0;      // sent by the busiest rank
  double local_elements = 0;      // received inside a host, or copied, by its busiest rank
  double summed_elements = 0;     // sources added up by the busiest rank
};

// Seconds. The defaults are typical of cards of 1 Gbit/s; a job learns its own costs
// (tuning/link_observer.h). The local latency is that of ranks that spin
// before they sleep.
struct LinkModel {
  double wire_latency_s = 60e-6, wire_message_s = 4e-6, wire_byte_s = 8e-9;
  double local_latency_s = 2e-6, local_message_s = 1e-6, local_byte_s = 0.15e-9;
  double sum_byte_s = 0.05e-9;
};

struct Algorithm {
  std::string_view name;
  // Empty when it can solve the problem, else why not.
  std::string (*unfit)(const Problem&);
  // The steps of problem.rank for one unit, 0 <= unit < unit_count(problem).
  Schedule (*schedule)(const Problem&, int64_t unit);
  Cost (*cost)(const Problem&);
};

// All algorithms of a kind; the first fits every problem.
std::span<const Algorithm> algorithms(Collective kind);

// Finds an algorithm by name. Throws InvalidArgument that lists the names, and Unsupported with the
// reason when it does not fit the problem.
const Algorithm& find_algorithm(const Problem& problem, std::string_view name);

// Bytes of an element: in memory and inside a host, and on the wire after encoding.
struct ElementBytes {
  double local = 4, wire = 4;
};

// Of a whole operation: every unit has messages of its own.
double estimate_s(const Problem& problem, const Algorithm& algorithm, const LinkModel& link,
                  const ElementBytes& bytes);

// The algorithm with the least estimate of those that fit. All ranks choose the same if their
// problems differ in `rank` only and they pass the same link; all_to_all has one algorithm.
const Algorithm& choose_algorithm(const Problem& problem, const LinkModel& link,
                                  const ElementBytes& bytes);

// The names of the algorithms that are worth real steps of training: those that fit and whose
// estimate, with elements of four bytes, is not much worse than that of the best.
std::vector<std::string> algorithms_to_try(const Problem& problem, const LinkModel& link);

}  // namespace stretto::comm
