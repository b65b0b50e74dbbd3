// `stretto run` belongs to the Python package: it parses its own options
// (python/stretto/_launch.py).
#pragma once

#include "command_info.h"
#include "verbs.h"

namespace stretto::cli {

// The whole command, with the options of `run` as the package describes them. Where there is no
// package, `run` has none, and a warning says so.
CommandInfo describe_all(const Command& root, const Context& context);

// Becomes `python -m module words...`: signals then reach the one who has to act on them. Returns
// by exceptions only: EnvironmentProblem if `python` does not start or lacks the package.
int hand_over(const std::string& python, const std::string& module,
              const std::vector<std::string>& words);

}  // namespace stretto::cli
