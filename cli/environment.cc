#include "environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command_info.h"
#include "engine_options.h"
#include "stretto/base/spelling.h"

extern char** environ;

namespace stretto::cli {
namespace {

struct Row {
  const char *name, *group, *meaning, *fallback;
};

constexpr const char *kGeneral = "General", *kRanks = "Ranks of a job",
                     *kLauncher = "Set by stretto run and stretto cluster",
                     *kDevelopment = "For Stretto's own tests";

constexpr Row kRows[] = {
    {"STRETTO_ISA", kGeneral,
     "Highest instruction set to use: portable, avx2 or avx512 on x86-64; neon on Arm. It is "
     "read whenever a model is optimised or loaded.",
     "the best one of the processor"},
    {"STRETTO_CACHE_DIR", kGeneral, "Folder of the tuning cache.",
     "$XDG_CACHE_HOME/stretto, or ~/.cache/stretto"},
    {"STRETTO_TUNING_CACHE", kGeneral,
     "File of the tuning cache, for models and for the gradient engine; none: no file.",
     "tuning-cache-VERSION.tsv in that folder"},
    {"STRETTO_STATE_DIR", kGeneral,
     "Folder of stretto cluster: clusters on this machine, and what jobs have left.",
     "$XDG_STATE_HOME/stretto, or ~/.local/state/stretto"},
    {"STRETTO_PYTHON", kGeneral,
     "Python with the stretto package, which runs peers and ranks for the stand-alone command.",
     "python3"},
    {"STRETTO_IO_URING", kGeneral,
     "0: loaders read by pread what goes to their cache of files (cache=\"user\"), also where the "
     "system has io_uring.",
     "1"},
    {"STRETTO_LOG_LEVEL", kGeneral,
     "Which of the library's messages Python shows on standard error: off, warning or info.",
     "none, unless the program sets up logging; warning under stretto run"},
    {"STRETTO_RANK", kRanks,
     "This process's rank, for the C interface and stretto.horovod, .jax and .tensorflow.",
     "RANK, or what Slurm or MPI set"},
    {"STRETTO_SIZE", kRanks, "Number of ranks of the job.", "WORLD_SIZE, or what Slurm or MPI set"},
    {"STRETTO_ADDRESS", kRanks, "Where the ranks meet: HOST:PORT, or on one host a folder.", ""},
    {"STRETTO_EPOCH", kRanks,
     "How often the job was formed. Ranks of different epochs do not meet.", "0"},
    {"STRETTO_STALL_WARNING", kRanks,
     "Seconds after which stretto.horovod, .jax and .tensorflow name a tensor that other ranks "
     "lack.",
     "60"},
    {"STRETTO_METRICS_PORT", kRanks,
     "Port on which a host's first rank serves counters for Prometheus at /metrics, the next rank "
     "on the next port; HOST:PORT: only on that interface.",
     "no port"},
    {"STRETTO_ELASTIC_GRACE", kRanks,
     "Seconds that the ranks of an elastic job wait for one of which nothing is known, before they "
     "go on without it.",
     "30"},
    {"STRETTO_ELASTIC_TIMEOUT", kRanks,
     "Seconds after which an elastic job ends that has too few ranks.", "600"},
    {"STRETTO_ELASTIC", kLauncher, "Smallest and largest number of ranks of an elastic job.", ""},
    {"STRETTO_ELASTIC_START", kLauncher, "Ranks with which an elastic job begins.", ""},
    {"STRETTO_ELASTIC_STORE", kLauncher, "Where the ranks of an elastic job agree on who they are.",
     ""},
    {"STRETTO_ELASTIC_WORKER", kLauncher, "Name of a rank's process in an elastic job.", ""},
    {"STRETTO_BIND", kLauncher, "1: a rank runs on its share of the host's cores only.", ""},
    {"STRETTO_REPLACE_BACKEND", kLauncher,
     "1: scripts that ask torch.distributed for gloo or nccl get stretto.", ""},
    {"STRETTO_RUN_FOLDER", kLauncher, "Folder in which ranks leave what --report and --trace show.",
     ""},
    {"STRETTO_CHECKPOINT", kLauncher, "The checkpoint that the command of --validate reads.", ""},
    {"STRETTO_JOB_FOLDER", kLauncher, "Folder of a job of stretto cluster run.", ""},
    {"STRETTO_TASK", kLauncher,
     "Which rank a process of stretto cluster run is, where there is no Slurm.", ""},
    {"STRETTO_RESTARTS", kLauncher, "How often a job on Kubernetes was started again.", ""},
    {"STRETTO_PROGRESS", kLauncher,
     "Folder in which ranks count their operations, for stretto cluster run --hang-after.", ""},
    {"STRETTO_LOOPBACK", kLauncher, "Cluster on this machine that a daemon of Slurm belongs to.",
     ""},
    {"STRETTO_BENCH_FILE", kDevelopment,
     "A file of several gigabytes on the disk that the micro-benchmarks read.", ""},
    {"STRETTO_BENCH_THREADS", kDevelopment, "Thread counts of the micro-benchmarks.", ""},
    {"STRETTO_MEDIA_PICTURES", kDevelopment, "Folder of JPEG files for media_bench and data_bench.",
     ""},
    {"STRETTO_CASE_COUNT", kDevelopment, "Number of random cases per operator.", ""},
    {"STRETTO_CASE_SEED", kDevelopment, "Seed of the random cases.", ""},
};

}  // namespace

std::vector<Variable> environment_variables() {
  std::vector<Variable> all;
  for (const Row& row : kRows) all.push_back({row.name, row.group, row.meaning, row.fallback});
  // After what is general; before what only the launcher and our tests use.
  auto at = std::find_if(all.begin(), all.end(), [](auto& v) { return v.group == kLauncher; });
  for (Variable& variable : engine_variables()) {
    const bool listed = std::any_of(std::begin(kRows), std::end(kRows),
                                    [&](const Row& known) { return variable.name == known.name; });
    if (!listed) at = all.insert(at, std::move(variable)) + 1;
  }
  return all;
}

std::string environment_text() {
  std::string text = "The environment variables that Stretto reads\n", group;
  for (const Variable& variable : environment_variables()) {
    if (variable.group != group) text += fmt::format("\n{}\n", variable.group);
    group = variable.group;
    std::string meaning = variable.meaning;
    if (!variable.fallback.empty()) meaning += fmt::format(" [{}]", variable.fallback);
    text += help_row(variable.name, meaning);
  }
  return text;
}

nlohmann::json environment_json() {
  nlohmann::json list = nlohmann::json::array();
  for (const Variable& variable : environment_variables()) {
    list.push_back({{"name", variable.name},
                    {"group", variable.group},
                    {"meaning", variable.meaning},
                    {"default", variable.fallback}});
  }
  return list;
}

std::vector<UnknownVariable> unknown_variables() {
  std::vector<std::string> known;
  for (const Variable& variable : environment_variables()) known.push_back(variable.name);
  // What ./dev and the tests read.
  for (const char* name : {"STRETTO_PRESET", "STRETTO_JOBS", "STRETTO_BUILD"}) {
    known.emplace_back(name);
  }
  std::vector<UnknownVariable> unknown;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("STRETTO_") || std::count(known.begin(), known.end(), name)) continue;
    unknown.push_back({name, nearest_word(name, known)});
  }
  return unknown;
}

}  // namespace stretto::cli
