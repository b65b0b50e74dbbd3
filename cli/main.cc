#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>
#include <vector>

#include "data_verbs.h"
#include "signals.h"
#include "streams.h"
#include "stretto/base/cpu.h"
#include "stretto/base/log.h"
#include "stretto/stretto.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

// In this order, with data_verbs() before the later ones.
constexpr Verb kVerbs[] = {
    {"optimize",
     "Make a faster, verified model from an ONNX file",
     "stretto optimize m.onnx -o m.stretto\n"
     "stretto optimize m.onnx -o m.stretto --input x=photo.npy --report r.html",
     set_up_optimize,
     {.computes = true}},
    {"infer",
     "Run a model on arrays from files",
     "stretto infer m.stretto --input x=photo.npy -o out.npz",
     set_up_infer,
     {.computes = true}},
    {"bench",
     "Time a model, and other engines if asked",
     "stretto bench m.onnx --threads 1,2 --peers onnxruntime,openvino",
     set_up_bench,
     {.computes = true}},
    {"inspect",
     "Show a model, the passes, and what the passes change",
     "stretto inspect m.onnx\n"
     "stretto inspect m.onnx --rules\n"
     "stretto inspect m.stretto --json",
     set_up_inspect,
     {.computes = true}},
    {"check",
     "Say whether a model would run, and which parts slowly",
     "stretto check m.onnx\n"
     "stretto check m.onnx --shape x=1x3x512x512 --json",
     set_up_check,
     {.computes = true}},
    {"convert", "Write a PyTorch program or an older ONNX model as an ONNX file",
     "stretto convert program.pt2 -o m.onnx\n"
     "stretto convert old.onnx -o new.onnx --shape x=1x3x224x224",
     set_up_convert},
    {"run",
     "Start a training script on several ranks",
     "stretto run -n 4 train.py --epochs 3",
     set_up_run,
     {.parses_itself = true}},
    {"migrate", "Turn a PyTorch script for one device into one for several ranks",
     "stretto migrate train.py                # shows the diff, changes nothing\n"
     "stretto migrate train.py -o ranks.py && stretto run -n 2 ranks.py",
     set_up_migrate},
    {"cluster", "Describe a site of unlike machines, and set up Slurm or Kubernetes for it",
     "stretto cluster compile site.toml -o out", set_up_cluster},
};
constexpr Verb kLaterVerbs[] = {
    {"kernels", "Time every kernel that fits a problem, and say why the others do not",
     "stretto kernels\n"
     "stretto kernels conv2d --input 1x64x56x56 --kernel 3",
     set_up_kernels},
    {"operators", "List the ONNX operators that a model may have", "stretto operators",
     set_up_operators},
    {"peers", "List the other engines that Stretto can be compared with", "stretto peers",
     set_up_peers},
    {"doctor", "Show what this computer has, and what looks wrong", "stretto doctor",
     set_up_doctor},
    {"completion", "Print a script that completes this command in bash, zsh or fish", "",
     set_up_completion},
    {"help", "Show the help of a verb, or the environment variables",
     "stretto help kernels conv2d\n"
     "stretto help environment\n"
     "stretto help --json",
     set_up_help},
};

std::vector<Verb> all_verbs() {
  std::vector<Verb> verbs(std::begin(kVerbs), std::end(kVerbs));
  verbs.insert(verbs.end(), data_verbs().begin(), data_verbs().end());
  verbs.insert(verbs.end(), std::begin(kLaterVerbs), std::end(kLaterVerbs));
  return verbs;
}

int complain(int code, std::string_view text) {
  say(fmt::format("stretto: {}\n", text));
  return code;
}

int parse_and_run(std::span<const std::string> arguments, const Context& context) {
  Command program{.name = "stretto",
                  .summary = "Stretto makes models run faster, and trains them on several machines",
                  .examples = "stretto optimize m.onnx -o m.stretto\nstretto optimize --help"};
  add_general_options(program, context);
  add_flag(program, "--version", ShowVersion{"stretto " + std::string(version())},
           "Show the version and exit", {.group = "General"});
  add_option(program, "--config", ReadConfig{}, "FILE",
             "Read options from a TOML file with a section per verb, such as [optimize]",
             {.group = "General"});
  for (const Verb& verb : all_verbs()) {
    Command& command = add_command(program, {.name = std::string(verb.name),
                                             .summary = std::string(verb.summary),
                                             .examples = std::string(verb.examples),
                                             .parses_itself = verb.kind.parses_itself});
    if (!verb.kind.parses_itself) add_general_options(command, context);
    command.run = verb.set_up(command, context);
    if (verb.kind.computes) {
      command.run = [run = command.run] {
        usable_isa();  // refuses a wrong STRETTO_ISA before any work is done
        return run();
      };
    }
  }
  const std::function<int()> run = parse(program, arguments);
  // One of them may stand before the verb, and the other behind it.
  if (context.talk->quiet && context.talk->verbose) throw_invalid("--verbose excludes --quiet");
  return run();
}

int run_verb(std::span<const std::string> arguments, const Context& context) {
  const EndOnSignals guard;
  const int code = parse_and_run(arguments, context);
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    throw std::system_error(errno, std::generic_category(), "standard output");
  }
  return code;
}

// While the command runs, what the library logs goes to standard error.
class LogToStderr {
 public:
  explicit LogToStderr(const Talk& talk)
      : before_(set_log([&talk](LogLevel level, std::string_view message) {
          level == LogLevel::kWarning ? talk.warn(message) : talk.note(message);
        })) {}
  ~LogToStderr() { set_log(std::move(before_)); }

 private:
  LogCallback before_;
};

}  // namespace

void add_general_options(Command& command, const Context& context) {
  Talk& talk = *context.talk;
  add_flag(command, "-h,--help", ShowHelp{}, "Show this help and exit", {.group = "General"});
  add_flag(command, "-q,--quiet", &talk.quiet, "Show errors and the result only",
           {.group = "General"});
  add_flag(command, "-v,--verbose", &talk.verbose, "Also say what is being done",
           {.group = "General", .excludes = "--quiet"});
  add_flag(command, "--json", &talk.json, "Print the result as JSON, and nothing else",
           {.group = "General"});
}

int main(std::span<const std::string> arguments, const Context& context) {
  occupy_closed_streams();
  const LogToStderr log(*context.talk);
  try {
    return run_verb(arguments, context);
  } catch (const InvalidArgument& e) {
    return complain(kBadUsage, e.what());
  } catch (const EnvironmentProblem& e) {
    return complain(kEnvironment, e.what());
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::broken_pipe) return 128 + SIGPIPE;  // the reader has left
    return complain(kEnvironment, e.what());
  } catch (const std::bad_alloc&) {
    return complain(kEnvironment, "out of memory");
  } catch (const InternalError& e) {
    complain(kFailed, e.what());
    return complain(kFailed, "this may be a mistake in Stretto: please report it");
  } catch (const std::exception& e) {
    return complain(kFailed, e.what());
  }
}

}  // namespace stretto::cli
