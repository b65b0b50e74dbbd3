#include "talk.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "streams.h"

namespace stretto::cli {

void Talk::note(std::string_view text) const {
  if (!quiet) say(fmt::format("stretto: note: {}\n", text));
}

void Talk::warn(std::string_view text) const {
  if (!quiet) say(fmt::format("stretto: warning: {}\n", text));
}

void Talk::detail(std::string_view text) const {
  if (verbose) say(fmt::format("stretto: {}\n", text));
}

void warn_without_effect(const Talk& talk, const Command& command,
                         const std::vector<std::string_view>& options, std::string_view reason) {
  for (const std::string_view name : options) {
    if (was_given(command, name)) talk.warn(fmt::format("{} has no effect: {}", name, reason));
  }
}

void print_json(const nlohmann::json& result) {
  // Names of files may have bytes that are no UTF-8, of which JSON has no form.
  fmt::print("{}\n", result.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace stretto::cli
