#include "talk.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace stretto::cli {

void Talk::note(std::string_view text) const {
  if (!quiet) fmt::print(stderr, "stretto: note: {}\n", text);
}

void Talk::warn(std::string_view text) const {
  if (!quiet) fmt::print(stderr, "stretto: warning: {}\n", text);
}

void Talk::detail(std::string_view text) const {
  if (verbose) fmt::print(stderr, "stretto: {}\n", text);
}

void warn_without_effect(const Talk& talk, const CLI::App& app,
                         const std::vector<std::string_view>& options, std::string_view reason) {
  for (const std::string_view name : options) {
    const CLI::Option* option = app.get_option_no_throw(std::string(name));
    if (option && option->count() > 0) {
      talk.warn(fmt::format("{} has no effect: {}", name, reason));
    }
  }
}

void print_json(const nlohmann::json& result) { fmt::print("{}\n", result.dump(1)); }

}  // namespace stretto::cli
