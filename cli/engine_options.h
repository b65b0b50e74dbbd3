// The gradient engine's options, for the command. A build without the engine (STRETTO_BUILD_COMM)
// compiles engine_options_absent.cc in place of engine_options.cc.
#pragma once

#include <string>
#include <vector>

#include "environment.h"

namespace stretto::cli {

std::vector<Variable> engine_variables();

// Why the engine would refuse the environment of this process; empty when it would not.
std::string engine_refusal();

}  // namespace stretto::cli
