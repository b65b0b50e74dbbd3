// Every environment variable that Stretto reads: one list, printed by `stretto help environment`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace stretto::cli {

struct Variable {
  std::string name, group, meaning;
  std::string fallback;  // what holds without it; empty: nothing
};

// Grouped, in the order to show. The gradient engine has a list of its own (comm/options.cc), which
// is part of this one.
std::vector<Variable> environment_variables();

std::string environment_text();
nlohmann::json environment_json();  // an array: name, group, meaning, default

// A variable that is set and begins with STRETTO_ but is none of the above.
struct UnknownVariable {
  std::string name;
  std::string meant;  // the nearest known name; empty when none is near
};
std::vector<UnknownVariable> unknown_variables();

}  // namespace stretto::cli
