#include "cluster_check.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/cluster/kubernetes/check.h"
#include "stretto/cluster/output.h"
#include "stretto/cluster/site.h"
#include "stretto/cluster/slurm/check.h"
#include "verbs.h"
#include "worker_process.h"

namespace stretto::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kObjects = "kubernetes.json";  // of a folder of saved texts
constexpr const char* kConfig = "config.txt";

// What a program says besides its output.
class ErrorFile {
 public:
  ErrorFile() {
    std::string pattern = (fs::temp_directory_path() / "stretto-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    if (fd < 0) throw EnvironmentProblem("cannot write to the folder of temporary files");
    close(fd);
    path_ = pattern;
  }
  ~ErrorFile() { unlink(path_.c_str()); }
  ErrorFile(const ErrorFile&) = delete;
  ErrorFile& operator=(const ErrorFile&) = delete;

  const std::string& path() const { return path_; }
  std::string last_line() const {
    std::string text = read_file(path_);
    while (text.ends_with('\n')) text.pop_back();
    return cluster::in_comment(text.substr(text.rfind('\n') + 1));
  }

 private:
  std::string path_;
};

bool in_path(const std::string& program) {
  const char* path = getenv("PATH");
  for (std::string_view rest = path ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / program;
    if (access(file.c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// What a command prints, which errors call `line`. `other` is the scheduler that can be asked
// alone.
std::string ask(const std::string& line, const std::vector<std::string>& words,
                const SiteCheckFlags& flags, std::string_view other) {
  const std::string hint =
      flags.target.empty() ? fmt::format("; --for {} leaves it out", other) : "";
  if (!in_path(words[0])) {
    throw EnvironmentProblem(fmt::format(
        "{} is not in PATH: run this where it is, or save what it prints and pass --from DIR{}",
        words[0], hint));
  }
  const ErrorFile errors;
  WorkerProcess process(words, errors.path());
  const double give_up = now_s() + flags.timeout_s;
  std::string text;
  while (const auto answer = process.receive(std::max(give_up - now_s(), 0.0))) {
    text += *answer;
    text += '\n';
  }
  text += process.unfinished_line();
  const std::string end = process.how_it_ended();
  if (end.empty()) {
    throw EnvironmentProblem(
        fmt::format("`{}` did not answer within {} s: is the scheduler overloaded or down? "
                    "--timeout waits longer{}",
                    line, flags.timeout_s, hint));
  }
  if (end != "exited with code 0") {
    throw EnvironmentProblem(fmt::format("`{}` {}: {}{}", line, end, errors.last_line(), hint));
  }
  return text;
}

std::vector<cluster::Difference> slurm(const cluster::Site& site, const SiteCheckFlags& flags) {
  const auto show = [&](const std::string& what) {
    if (!flags.folder.empty())
      return read_file((fs::path(flags.folder) / (what + ".txt")).string());
    // -a: hidden partitions, too, and those that others may use.
    return ask("scontrol -a -o show " + what, {"scontrol", "-a", "-o", "show", what}, flags,
               "kubernetes");
  };
  return cluster::slurm_differences(site, {.config = show("config"),
                                           .partitions = show("partition"),
                                           .nodes = show("node"),
                                           .reservations = show("reservation")});
}

std::vector<cluster::Difference> kubernetes(const cluster::Site& site,
                                            const SiteCheckFlags& flags) {
  if (!flags.folder.empty()) {
    return cluster::kubernetes_differences(site,
                                           read_file((fs::path(flags.folder) / kObjects).string()));
  }
  return cluster::kubernetes_differences(
      site, ask("kubectl get",
                {"kubectl", "get", "-A", "-o", "json",
                 fmt::format("--request-timeout={}s", static_cast<int64_t>(flags.timeout_s) + 1),
                 cluster::kubernetes_kinds()},
                flags, "slurm"));
}

struct Scheduler {
  std::string_view name, title;
  const char* program;
  const char* text;  // that a folder has of it
  std::vector<cluster::Difference> (*differences)(const cluster::Site&, const SiteCheckFlags&);
};

constexpr Scheduler kSchedulers[] = {
    {"slurm", "Slurm", "scontrol", kConfig, slurm},
    {"kubernetes", "Kubernetes", "kubectl", kObjects, kubernetes},
};

bool is_meant(const Scheduler& each, const SiteCheckFlags& flags) {
  if (!flags.target.empty()) return flags.target == "both" || flags.target == each.name;
  if (flags.folder.empty()) return in_path(each.program);
  return fs::exists(fs::path(flags.folder) / each.text);
}

json as_json(const cluster::Difference& each, std::string_view scheduler) {
  const auto text = [](const std::string& value) { return value.empty() ? json() : json(value); };
  return {{"scheduler", scheduler},
          {"what", each.what},
          {"key", text(each.key)},
          {"expected", text(each.expected)},
          {"found", text(cluster::in_comment(each.found))},
          {"line", each.line == 0 ? json() : json(each.line)}};
}

std::string in_words(const cluster::Difference& each, const std::string& file,
                     std::string_view scheduler) {
  const std::string where = each.line > 0 ? fmt::format("{}:{}: ", file, each.line) : "";
  const std::string key = each.key.empty() ? "" : each.key + " ";
  if (each.expected.empty()) {
    // A field of an object of the site file, or an object that it does not have.
    if (scheduler == "Kubernetes" && !key.empty()) {
      return fmt::format("{}{}: {}is {}, expected not set", where, each.what, key,
                         cluster::in_comment(each.found));
    }
    return fmt::format("{}{}: {}{}, the site file has none", where, each.what, key,
                       cluster::in_comment(each.found));
  }
  if (each.key.empty()) {
    return fmt::format("{}{}: is missing in {}", where, each.what, scheduler);
  }
  if (each.expected == cluster::kEntry) {
    return fmt::format("{}{}: {}is missing", where, each.what, key);
  }
  return fmt::format("{}{}: {}is {}, expected {}", where, each.what, key,
                     each.found.empty() ? "not set" : cluster::in_comment(each.found),
                     each.expected);
}

}  // namespace

int check_site(const SiteCheckFlags& flags, const Talk& talk) {
  const cluster::Site site = cluster::read_site(flags.site);
  json list = json::array(), compared = json::array();
  std::string text;
  for (const Scheduler& scheduler : kSchedulers) {
    if (!is_meant(scheduler, flags)) continue;
    compared.push_back(scheduler.name);
    for (const cluster::Difference& each : scheduler.differences(site, flags)) {
      list.push_back(as_json(each, scheduler.name));
      text += in_words(each, flags.site, scheduler.title) + "\n";
    }
  }
  if (compared.empty() && flags.folder.empty()) {
    throw EnvironmentProblem(
        "neither scontrol nor kubectl is in PATH: run this where one of them is, or save what it "
        "prints and pass --from DIR");
  }
  if (compared.empty()) {
    throw_invalid("--from {}: it has neither {} nor {} (docs/howto/cluster-site.md)", flags.folder,
                  kConfig, kObjects);
  }
  const size_t count = list.size();
  if (talk.json) {
    print_json(
        {{"site", site.name}, {"compared", std::move(compared)}, {"differences", std::move(list)}});
  } else {
    fmt::print("{}", text);
    talk.note(count == 0 ? "no differences"
                         : fmt::format("{} difference{}", count, count == 1 ? "" : "s"));
  }
  return count == 0 ? kOk : kFailed;
}

}  // namespace stretto::cli
