// stretto cluster VERB: what a site is, what Slurm and Kubernetes are told about it, and jobs.
#include "cluster_verbs.h"

namespace stretto::cli {
namespace {

// The Python package knows their options (python/stretto/cluster/_options.py).
constexpr VerbKind kOfPackage{.parses_itself = true};

// In the order in which the help shows them.
constexpr Verb kClusterVerbs[] = {
    {"up", "Start a Slurm cluster on this machine, or say which schedulers there are",
     "stretto cluster up --local-slurm", set_up_cluster_job, kOfPackage},
    {"run", "Run a script as a job: pack, submit, follow", "stretto cluster run -n 4 train.py",
     set_up_cluster_job, kOfPackage},
    {"ls", "List the jobs that wait or run", "stretto cluster ls", set_up_cluster_job, kOfPackage},
    {"logs", "Show what the ranks of a job have printed", "stretto cluster logs 12 -f",
     set_up_cluster_job, kOfPackage},
    {"ssh", "Open a shell where a rank of a job runs", "stretto cluster ssh 12 3",
     set_up_cluster_job, kOfPackage},
    {"upload", "Copy files into the folder of a job", "stretto cluster upload 12 labels.csv",
     set_up_cluster_job, kOfPackage},
    {"download", "Copy the files that a job wrote", "stretto cluster download 12 -o results",
     set_up_cluster_job, kOfPackage},
    {"stop", "End a job", "stretto cluster stop 12", set_up_cluster_job, kOfPackage},
    {"down", "End a cluster of this machine, and remove what belongs to it", "stretto cluster down",
     set_up_cluster_job, kOfPackage},
    {"compile", "Write what Slurm and Kubernetes need to know of a site, or compare with them",
     "stretto cluster compile site.toml -o out\n"
     "stretto cluster compile site.toml -o out --for slurm\n"
     "stretto cluster compile site.toml --check",
     set_up_cluster_compile},
    {"schema", "Print the JSON Schema of site files, or their reference as Markdown",
     "stretto cluster schema > site.schema.json", set_up_cluster_schema},
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
