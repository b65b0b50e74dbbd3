// The verbs of `stretto cluster` that deal with jobs. Their options are rows of
// python/stretto/cluster/_options.py.
#pragma once

#include "verbs.h"

namespace stretto::cli {

std::function<int()> set_up_cluster_job(Command& command, const Context& context);

constexpr VerbKind kClusterJob{.parses_itself = true};

// In the order in which the help shows them.
constexpr Verb kClusterJobs[] = {
    {"up", "Start a Slurm cluster on this machine, or say which schedulers there are",
     "stretto cluster up --local-slurm", set_up_cluster_job, kClusterJob},
    {"run", "Run a script as a job: pack, submit, follow", "stretto cluster run -n 4 train.py",
     set_up_cluster_job, kClusterJob},
    {"ls", "List the jobs that wait or run", "stretto cluster ls", set_up_cluster_job, kClusterJob},
    {"logs", "Show what the ranks of a job have printed", "stretto cluster logs 12 -f",
     set_up_cluster_job, kClusterJob},
    {"ssh", "Open a shell where a rank of a job runs", "stretto cluster ssh 12 3",
     set_up_cluster_job, kClusterJob},
    {"upload", "Copy files into the folder of a job", "stretto cluster upload 12 labels.csv",
     set_up_cluster_job, kClusterJob},
    {"download", "Copy the files that a job wrote", "stretto cluster download 12 -o results",
     set_up_cluster_job, kClusterJob},
    {"stop", "End a job", "stretto cluster stop 12", set_up_cluster_job, kClusterJob},
    {"down", "End a cluster of this machine, and remove what belongs to it", "stretto cluster down",
     set_up_cluster_job, kClusterJob},
};

}  // namespace stretto::cli
