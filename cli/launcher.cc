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

// The folder of the package that `python` would find; throws EnvironmentProblem if there is none,
// or if `python` does not start.
std::string package_folder(const std::string& python) {
  WorkerProcess process(
      {python, "-c",
       "import importlib.util\n"
       "spec = importlib.util.find_spec('stretto')\n"
       "print(list(spec.submodule_search_locations)[0] if spec else '', flush=True)"},
      "/dev/null");
  const std::string folder = process.receive(kDescribe_s).value_or("");
  if (folder.empty()) throw no_package(python);
  return folder;
}

int become(const std::string& python, const std::vector<std::string>& words) {
  std::vector<std::string> line{python};
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  execvp(arguments[0], arguments.data());
  throw EnvironmentProblem(fmt::format("cannot start {}: {}", python, std::strerror(errno)));
}

// What `python -m module --describe` prints.
nlohmann::json described_by(const std::string& python, const std::string& module) {
  WorkerProcess process({python, "-m", module, "--describe"}, "/dev/null");
  const auto line = process.receive(kDescribe_s);
  nlohmann::json described = nlohmann::json::parse(line.value_or(""), nullptr, false);
  if (described.is_discarded()) throw no_package(python);
  return described;
}

// Puts in the options of those verbs below `stretto cluster` that Python parses.
void describe_jobs(CommandInfo& cluster, const std::string& python) {
  for (const nlohmann::json& verb : described_by(python, "stretto.cluster")) {
    CommandInfo info = command_from_json(verb);
    for (CommandInfo& below : cluster.commands) {
      if (below.name == info.name) below = info;
    }
  }
}

}  // namespace

int hand_over(const std::string& python, const std::string& module,
              const std::vector<std::string>& words) {
  package_folder(python);  // an error now is clearer than Python's
  std::vector<std::string> line{"-m", module};
  line.insert(line.end(), words.begin(), words.end());
  return become(python, line);
}

int hand_over_file(const std::string& python, const std::string& file,
                   const std::vector<std::string>& words) {
  std::vector<std::string> line{package_folder(python) + "/" + file};
  line.insert(line.end(), words.begin(), words.end());
  return become(python, line);
}

CommandInfo describe_all(const Command& root, const Context& context) {
  CommandInfo whole = describe(root);
  for (CommandInfo& verb : whole.commands) {
    try {
      if (verb.name == "stretto run") {
        verb = command_from_json(described_by(context.python, "stretto._launch"));
      } else if (verb.name == "stretto cluster") {
        describe_jobs(verb, context.python);
      }
    } catch (const EnvironmentProblem& e) {
      const std::string name = verb.name.substr(verb.name.find(' ') + 1);
      context.talk->warn(fmt::format("the options of '{}' are missing: {}", name, e.what()));
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
