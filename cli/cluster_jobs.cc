// stretto cluster up, run, ls and others that deal with jobs: the Python package parses their
// options and does them (python/stretto/cluster).
#include "cluster_jobs.h"

#include "launcher.h"

namespace stretto::cli {

std::function<int()> set_up_cluster_job(Command& command, const Context& context) {
  return [&command, context] {
    std::vector<std::string> words{command.name};  // what stood before the verb holds for it too
    if (context.talk->quiet) words.emplace_back("--quiet");
    if (context.talk->verbose) words.emplace_back("--verbose");
    if (context.talk->json) words.emplace_back("--json");
    words.insert(words.end(), command.words.begin(), command.words.end());
    return hand_over_file(context.python, "cluster/__main__.py", words);
  };
}

}  // namespace stretto::cli
