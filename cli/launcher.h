// `stretto run` and the jobs of `stretto cluster` belong to the Python package, which parses their
// options (python/stretto/_launch.py, python/stretto/cluster).
#pragma once

#include "command_info.h"
#include "verbs.h"

namespace stretto::cli {

// The whole command, with the options of these verbs as the package describes them. Where there is
// no package, they have none, and a warning says so.
CommandInfo describe_all(const Command& root, const Context& context);

// Becomes `python -m module words...`: signals then reach the one who has to act on them. Returns
// by exceptions only: EnvironmentProblem if `python` does not start or lacks the package.
int hand_over(const std::string& python, const std::string& module,
              const std::vector<std::string>& words);

// The same for a file of the package, "cluster/__main__.py", which then runs without what
// `import stretto` loads.
int hand_over_file(const std::string& python, const std::string& file,
                   const std::vector<std::string>& words);

}  // namespace stretto::cli
