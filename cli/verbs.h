// The verbs of the `stretto` command: one file each, one row each in main.cc.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "command.h"
#include "talk.h"

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

struct VerbKind {
  bool computes = false;       // with the kernels of usable_isa()
  bool parses_itself = false;  // its words go to another program as they are
};

// Adds its options to `command` and returns what to do once they are parsed.
struct Verb {
  std::string_view name, summary;
  std::string_view examples;  // one per line
  std::function<int()> (*set_up)(Command& command, const Context& context);
  VerbKind kind = {};
};

std::function<int()> set_up_optimize(Command& command, const Context& context);
std::function<int()> set_up_infer(Command& command, const Context& context);
std::function<int()> set_up_bench(Command& command, const Context& context);
std::function<int()> set_up_inspect(Command& command, const Context& context);
std::function<int()> set_up_check(Command& command, const Context& context);
std::function<int()> set_up_convert(Command& command, const Context& context);
std::function<int()> set_up_migrate(Command& command, const Context& context);
std::function<int()> set_up_run(Command& command, const Context& context);
std::function<int()> set_up_cluster(Command& command, const Context& context);
std::function<int()> set_up_kernels(Command& command, const Context& context);
std::function<int()> set_up_peers(Command& command, const Context& context);
std::function<int()> set_up_operators(Command& command, const Context& context);
std::function<int()> set_up_doctor(Command& command, const Context& context);
std::function<int()> set_up_completion(Command& command, const Context& context);
std::function<int()> set_up_help(Command& command, const Context& context);

// Adds the options that every verb has: --help, -v, -q and --json.
void add_general_options(Command& command, const Context& context);

// Runs the command line (without the program's name) and returns the exit code. Prints; never
// throws.
int main(std::span<const std::string> arguments, const Context& context);

}  // namespace stretto::cli
