// stretto cluster VERB: what a site is, what Slurm and Kubernetes are told about it, and jobs.
#include "cluster_jobs.h"

namespace stretto::cli {

std::function<int()> set_up_cluster(Command& command, const Context& context) {
  for (const Verb& verb : kClusterJobs) {
    Command& below = add_command(command, {.name = std::string(verb.name),
                                           .summary = std::string(verb.summary),
                                           .examples = std::string(verb.examples),
                                           .parses_itself = verb.kind.parses_itself});
    if (!verb.kind.parses_itself) add_general_options(below, context);
    below.run = verb.set_up(below, context);
  }
  return {};
}

}  // namespace stretto::cli
