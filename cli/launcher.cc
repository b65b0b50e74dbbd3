// stretto run -n 4 train.py: hands over to the Python package, which drives torchrun or srun.
#include "launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "worker_process.h"

namespace stretto::cli {
namespace {

constexpr double kDescribe_s = 30;

// Whether `python` would find the package; throws EnvironmentProblem if it does not start.
bool has_package(const std::string& python) {
  WorkerProcess process({python, "-c",
                         "import importlib.util\n"
                         "print(importlib.util.find_spec('stretto') is not None, flush=True)"},
                        "/dev/null");
  return process.receive(kDescribe_s) == "True";
}

CommandInfo describe_run(const std::string& python) {
  WorkerProcess process({python, "-m", "stretto._launch", "--describe"}, "/dev/null");
  const auto line = process.receive(kDescribe_s);
  const auto described = nlohmann::json::parse(line.value_or(""), nullptr, false);
  if (!described.is_object()) {
    throw no_package(python);
  }
  return command_from_json(described);
}

}  // namespace

int hand_over(const std::string& python, const std::string& module,
              const std::vector<std::string>& words) {
  if (!has_package(python)) throw no_package(python);
  std::vector<std::string> line{python, "-m", module};
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  execvp(arguments[0], arguments.data());
  throw EnvironmentProblem(fmt::format("cannot start {}: {}", python, std::strerror(errno)));
}

CommandInfo describe_all(const Command& root, const Context& context) {
  CommandInfo whole = describe(root);
  for (CommandInfo& verb : whole.commands) {
    if (verb.name != "stretto run") continue;
    try {
      verb = describe_run(context.python);
    } catch (const EnvironmentProblem& e) {
      context.talk->warn(fmt::format("the options of 'run' are missing: {}", e.what()));
    }
  }
  return whole;
}

std::function<int()> set_up_run(Command& command, const Context& context) {
  return [&command, context] {
    std::vector<std::string> words;  // what stood before the verb holds for it too
    if (context.talk->quiet) words.emplace_back("--quiet");
    if (context.talk->verbose) words.emplace_back("--verbose");
    if (context.talk->json) words.emplace_back("--json");
    words.insert(words.end(), command.words.begin(), command.words.end());
    return hand_over(context.python, "stretto._launch", words);
  };
}

}  // namespace stretto::cli
