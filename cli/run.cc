// stretto run -n 4 train.py: hands over to the Python package, which drives torchrun or srun.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "verbs.h"

namespace stretto::cli {
namespace {

// Becomes `python -m stretto._launch words...`: signals then reach the one who has to act on them.
int hand_over(const std::string& python, const std::vector<std::string>& words) {
  std::vector<std::string> line{python, "-m", "stretto._launch"};
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  execvp(arguments[0], arguments.data());
  throw EnvironmentProblem(fmt::format("run: cannot start {}: {}", python, std::strerror(errno)));
}

}  // namespace

std::function<int()> set_up_run(CLI::App& app, const Context& context) {
  app.prefix_command();
  app.set_help_flag();  // the launcher has its own
  return [&app, python = context.python] { return hand_over(python, app.remaining()); };
}

}  // namespace stretto::cli
