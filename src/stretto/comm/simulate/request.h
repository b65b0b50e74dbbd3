// The simulator as a function from one JSON text to another, for Python (bench/comm/simulate.py).
#pragma once

#include <string>
#include <string_view>

namespace stretto::comm {

// The request says what to play ("what": "operation", "negotiation", "tuning" or "link") and where:
// "ranks", "ranks_per_host", "hosts_per_rack" and "link", which has the fields of LinkModel.
// Others:
//   operation     "kind" (all_reduce), "bytes", "algorithm" (empty: the chosen one), "unit_bytes"
//   (0:
//                 the default), "exact", "most_steps", "window_bytes"
//   negotiation   "names", "steps"
//   tuning        "bytes", "unit_bytes", "algorithm": where the tuner starts; "most_steps"
//   link          nothing is played: the answer is the link model, with its defaults
// The answer has the fields of OperationRun, NegotiationRound or TuningRun. An operation that the
// algorithm cannot do has "unfit": the reason. Throws InvalidArgument on a request that is wrong.
std::string simulate_request(std::string_view request);

}  // namespace stretto::comm
