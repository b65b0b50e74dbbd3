// The verbs of the `stretto` command: one file each, one row each in main.cc.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "talk.h"

namespace CLI {
class App;
}

namespace stretto::cli {

// What each means is in command_info.cc.
enum ExitCode { kOk = 0, kFailed = 1, kBadUsage = 2, kEnvironment = 3 };

// Something this computer lacks: another program, a package, a terminal. Exit code 3.
class EnvironmentProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the command knows of its surroundings.
struct Context {
  std::string python;  // interpreter that has the stretto package: it runs peers and launches ranks
  std::shared_ptr<Talk> talk = std::make_shared<Talk>();  // set while options are parsed
};

// Adds its options to `app` and returns what to do once they are parsed.
struct Verb {
  std::string_view name, summary;
  std::string_view examples;  // one per line
  std::function<int()> (*set_up)(CLI::App& app, const Context& context);
  bool parses_itself = false;  // its words go to another program as they are
};

std::function<int()> set_up_optimize(CLI::App& app, const Context& context);
std::function<int()> set_up_infer(CLI::App& app, const Context& context);
std::function<int()> set_up_bench(CLI::App& app, const Context& context);
std::function<int()> set_up_inspect(CLI::App& app, const Context& context);
std::function<int()> set_up_run(CLI::App& app, const Context& context);
std::function<int()> set_up_kernels(CLI::App& app, const Context& context);
std::function<int()> set_up_peers(CLI::App& app, const Context& context);
std::function<int()> set_up_operators(CLI::App& app, const Context& context);
std::function<int()> set_up_doctor(CLI::App& app, const Context& context);
std::function<int()> set_up_completion(CLI::App& app, const Context& context);
std::function<int()> set_up_help(CLI::App& app, const Context& context);

// Adds the options that every verb has: --help, -v, -q and --json.
void add_general_options(CLI::App& app, const Context& context);

// Runs the command line (without the program's name) and returns the exit code. Prints; never
// throws.
int main(std::span<const std::string> arguments, const Context& context);

}  // namespace stretto::cli
