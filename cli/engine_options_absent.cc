#include "engine_options.h"

namespace stretto::cli {

std::vector<Variable> engine_variables() { return {}; }

std::string engine_refusal() { return ""; }

}  // namespace stretto::cli
