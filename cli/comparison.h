// What time_with_peers() found, for people and for the report.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "peers.h"

namespace stretto::cli {

// A table with a row per engine; below it, what engines that failed wrote to standard error, and
// whether other programs disturbed the comparison.
void print_comparison(const Comparison& comparison);
// The same for --json: "stretto", "peers" with an object each, and "other_work".
nlohmann::json to_json(const Comparison& comparison);

// Writes the peers to report["latency"]["peers"] and Stretto's memory to report["memory"]. Where
// peers were timed, Stretto's latency is that of the same turns.
void add_comparison(nlohmann::json& report, const Comparison& comparison);

}  // namespace stretto::cli
