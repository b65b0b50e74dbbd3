// The verbs of `stretto cluster`: a file of their own or a function in one, and one row each in
// cluster.cc.
#pragma once

#include "verbs.h"

namespace stretto::cli {

// Of the verbs that deal with jobs.
std::function<int()> set_up_cluster_job(Command& command, const Context& context);
std::function<int()> set_up_cluster_compile(Command& command, const Context& context);
std::function<int()> set_up_cluster_schema(Command& command, const Context& context);
std::function<int()> set_up_cluster_simulate(Command& command, const Context& context);

}  // namespace stretto::cli
