// stretto cluster compile SITE --check: what a scheduler has compared with a site file.
#pragma once

#include <string>

#include "talk.h"

namespace stretto::cli {

struct SiteCheckFlags {
  std::string site;
  std::string target;  // "slurm", "kubernetes" or "both"; empty: whose commands or texts there are
  std::string folder;  // of saved texts; empty: schedulers are asked
  double timeout_s = 30;
};

// Prints the differences; returns kFailed where there are some. Only reads: `scontrol show` and
// `kubectl get`. Throws EnvironmentProblem for a scheduler that is absent, down or late.
int check_site(const SiteCheckFlags& flags, const Talk& talk);

}  // namespace stretto::cli
