#include "data_verbs.h"

namespace stretto::cli {

std::span<const Verb> data_verbs() { return {}; }

}  // namespace stretto::cli
