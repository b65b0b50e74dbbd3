// The verbs of `stretto cluster`: a file of their own or a function in one, and one row each in
// cluster.cc.
#pragma once

#include "verbs.h"

namespace stretto::cli {

std::function<int()> set_up_cluster_simulate(Command& command, const Context& context);

}  // namespace stretto::cli
