// stretto migrate train.py [-o FILE | --in-place | --diff]: belongs to the Python package
// (python/stretto/migrate/__main__.py), which knows the same options.
#include <memory>

#include "command.h"
#include "launcher.h"
#include "stretto/base/error.h"
#include "talk.h"

namespace stretto::cli {
namespace {

struct MigrateFlags {
  std::string script, out, backend = "auto";
  bool in_place = false, diff = false;
};

}  // namespace

std::function<int()> set_up_migrate(Command& command, const Context& context) {
  auto flags = std::make_shared<MigrateFlags>();
  add_option(command, "script", &flags->script, "FILE", "A training script for one device",
             {.required = true});
  add_option(command, "-o,--output", &flags->out, "FILE", "Write the new script to this file",
             {.group = "Output"});
  add_flag(command, "--in-place", &flags->in_place, "Change the script itself",
           {.group = "Output", .excludes = "--output"});
  add_flag(command, "--diff", &flags->diff, "Print the diff, for patch, and no hint",
           {.group = "Output", .excludes = "--output"});
  add_option(
      command, "--backend", &flags->backend, "NAME",
      "Of torch.distributed; auto: nccl on GPUs, and stretto elsewhere",
      {.group = "Script", .show_default = true, .one_of = {"auto", "stretto", "gloo", "nccl"}});
  return [flags, context] {
    if (flags->in_place && flags->diff) throw_invalid("--diff excludes --in-place");
    std::vector<std::string> words{"--backend", flags->backend};
    if (!flags->out.empty()) words.insert(words.end(), {"--output", flags->out});
    if (flags->in_place) words.emplace_back("--in-place");
    if (flags->diff) words.emplace_back("--diff");
    if (context.talk->json) words.emplace_back("--json");
    if (context.talk->quiet) words.emplace_back("--quiet");
    if (context.talk->verbose) words.emplace_back("--verbose");
    words.insert(words.end(), {"--", flags->script});
    return hand_over(context.python, "stretto.migrate", words);
  };
}

}  // namespace stretto::cli
