#include "engine_options.h"

#include <exception>

#include "stretto/comm/options.h"

namespace stretto::cli {

std::vector<Variable> engine_variables() {
  std::vector<Variable> all;
  for (const comm::OptionRow& row : comm::describe({})) {
    all.push_back({row.variable, "Gradient engine", row.meaning, row.value});
  }
  return all;
}

std::string engine_refusal() {
  try {
    comm::Options::from_environment();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace stretto::cli
