// The verbs of the `stretto` command: one file each, one row each in main.cc.
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace stretto::cli {

enum ExitCode { kOk = 0, kFailed = 1, kBadUsage = 2, kEnvironment = 3 };

// Something this computer lacks: another program, a package, a terminal. Exit code 3.
class EnvironmentProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the command knows of its surroundings.
struct Context {
  std::string python;  // interpreter whose `stretto.peers` runs the engines to compare with
};

// Adds its options to `app` and returns what to do once they are parsed.
struct Verb {
  std::string_view name, summary;
  std::function<int()> (*set_up)(CLI::App& app, const Context& context);
};

std::function<int()> set_up_optimize(CLI::App& app, const Context& context);
std::function<int()> set_up_infer(CLI::App& app, const Context& context);
std::function<int()> set_up_bench(CLI::App& app, const Context& context);
std::function<int()> set_up_inspect(CLI::App& app, const Context& context);
std::function<int()> set_up_run(CLI::App& app, const Context& context);
std::function<int()> set_up_kernels(CLI::App& app, const Context& context);

// Runs the command line (without the program's name) and returns the exit code. Prints; never
// throws.
int main(std::span<const std::string> arguments, const Context& context);

}  // namespace stretto::cli
