// What a verb says besides its result: the result goes to standard output, all else to standard
// error.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>
#include <vector>

namespace stretto::cli {

struct Command;

// The options that every verb has.
struct Talk {
  bool quiet = false;    // -q: no progress bar, no notes, no warnings; errors only
  bool verbose = false;  // -v: also details
  bool json = false;     // --json: the result as JSON

  void note(std::string_view text) const;
  void warn(std::string_view text) const;
  void detail(std::string_view text) const;  // with -v only
};

// Warns for each of `options` that was given: "--tuning has no effect: REASON".
void warn_without_effect(const Talk& talk, const Command& command,
                         const std::vector<std::string_view>& options, std::string_view reason);

// The result of a verb under --json (docs/formats/command-json.md). Nothing else may go to standard
// output then.
void print_json(const nlohmann::json& result);

}  // namespace stretto::cli
