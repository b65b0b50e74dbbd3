// stretto cluster VERB: what a site is, what Slurm and Kubernetes are told about it, and jobs.
#include "cluster_verbs.h"

namespace stretto::cli {
namespace {

// In the order in which the help shows them.
constexpr Verb kClusterVerbs[] = {
    {"simulate", "Say what a policy would do with the jobs of a trace",
     "stretto cluster simulate site.toml --trace jobs.csv -o page.html\n"
     "stretto cluster simulate site.toml --trace jobs.csv --policy site,easy+fgd,soft-groups\n"
     "stretto cluster simulate site.toml --trace sacct.txt --fit",
     set_up_cluster_simulate},
};

}  // namespace

std::function<int()> set_up_cluster(Command& command, const Context& context) {
  for (const Verb& verb : kClusterVerbs) {
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
