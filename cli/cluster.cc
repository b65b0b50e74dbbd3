// stretto cluster VERB: what a site is, what Slurm and Kubernetes are told about it, and jobs.
#include "cluster_verbs.h"

namespace stretto::cli {
namespace {

// In the order in which the help shows them.
constexpr Verb kClusterVerbs[] = {
    {"compile", "Write what Slurm and Kubernetes need to know of a site",
     "stretto cluster compile site.toml -o out\n"
     "stretto cluster compile site.toml -o out --for slurm",
     set_up_cluster_compile},
    {"schema", "Print the JSON Schema of site files, or their reference as Markdown",
     "stretto cluster schema > site.schema.json", set_up_cluster_schema},
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
