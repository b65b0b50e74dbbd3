#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>

#include "command_info.h"
#include "signals.h"
#include "spelling.h"
#include "stretto/base/log.h"
#include "stretto/stretto.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"optimize", "Make a faster, verified model from an ONNX file",
     "stretto optimize m.onnx -o m.stretto\n"
     "stretto optimize m.onnx -o m.stretto --input x=photo.npy --report r.html",
     set_up_optimize},
    {"infer", "Run a model on arrays from files",
     "stretto infer m.stretto --input x=photo.npy -o out.npz", set_up_infer},
    {"bench", "Time a model, and its peers if asked",
     "stretto bench m.onnx --threads 1,2 --peers onnxruntime,openvino", set_up_bench},
    {"inspect", "Show a model, the passes, and what the passes change",
     "stretto inspect m.onnx\n"
     "stretto inspect m.onnx --rules\n"
     "stretto inspect m.stretto --json",
     set_up_inspect},
    {"run", "Start a training script on several ranks", "stretto run -n 4 train.py --epochs 3",
     set_up_run, true},
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
    {"completion", "Print a script that completes this command in a shell", "", set_up_completion},
    {"help", "Show the help of a verb, or the environment variables",
     "stretto help kernels conv2d\n"
     "stretto help environment\n"
     "stretto help --json",
     set_up_help},
};

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return help_text(describe(*app));
  }
};

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Names the alternatives for a word that is no subcommand, which CLI11 does not.
void check_subcommand(const CLI::App& app, std::span<const std::string> words) {
  const auto known = subcommands(app);
  if (known.empty() || words.empty() || words[0].starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* sub : known) {
    if (sub->get_name() == words[0]) return check_subcommand(*sub, words.subspan(1));
    names.push_back(sub->get_name());
  }
  const std::string meant = nearest(words[0], names);
  throw_invalid("{} has no '{}'{}; there are: {}", app.get_name(), words[0],
                meant.empty() ? "" : ", did you mean " + meant + "?",
                CLI::detail::join(names, ", "));
}

int complain(int code, std::string_view text) {
  fmt::print(stderr, "stretto: {}\n", text);
  return code;
}

// The innermost subcommand that was named.
const CLI::App& named(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : named(*parsed.back());
}

int complain_about_usage(const CLI::App& app, const std::string& problem) {
  return complain(kBadUsage, fmt::format("{}; '{} --help' lists what there is", problem,
                                         describe(named(app)).name));
}

// For words that are neither options nor arguments of the verb.
std::string unexpected(const CLI::App& app) {
  const CLI::App& verb = named(app);
  const std::vector<std::string> words = verb.remaining();
  const auto option = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.starts_with('-'); });
  if (option == words.end()) {
    return fmt::format("{} takes no further argument '{}'", verb.get_name(),
                       words.empty() ? "" : words.back());
  }
  std::vector<std::string> known;
  for (const CLI::Option* each : verb.get_options()) {
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  }
  const std::string word = option->substr(0, option->find('='));
  const std::string meant = nearest(word, known);
  return fmt::format("{} has no option {}{}", verb.get_name(), word,
                     meant.empty() ? "" : ", did you mean " + meant + "?");
}

int parse_and_run(std::span<const std::string> arguments, const Context& context) {
  CLI::App app("Stretto: same model, same script, faster", "stretto");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Show this help and exit")->group("General");
  app.set_version_flag("--version", "stretto " + std::string(version()),
                       "Show the version and exit")
      ->group("General");
  app.footer("stretto optimize m.onnx -o m.stretto\nstretto optimize --help");
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_config("--config", "", "Read options by verb: [optimize] disable=[\"...\"]")
      ->type_name("FILE")
      ->group("General");
  std::function<int()> chosen;
  for (const Verb& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(std::string(verb.name), std::string(verb.summary));
    sub->footer(std::string(verb.examples));
    if (!verb.parses_itself) add_general_options(*sub, context);
    sub->parse_complete_callback([&chosen, run = verb.set_up(*sub, context)] { chosen = run; });
  }
  check_subcommand(app, arguments);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ExtrasError&) {
    return complain_about_usage(app, unexpected(app));
  } catch (const CLI::ParseError& e) {
    return complain_about_usage(app, e.what());
  }
  return chosen ? chosen() : kBadUsage;
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

void add_general_options(CLI::App& app, const Context& context) {
  Talk& talk = *context.talk;
  app.set_help_flag("-h,--help", "Show this help and exit")->group("General");
  auto* quiet = app.add_flag("-q,--quiet", talk.quiet, "Show errors and the result only");
  app.add_flag("-v,--verbose", talk.verbose, "Also say what is being done")
      ->group("General")
      ->excludes(quiet->group("General"));
  app.add_flag("--json", talk.json, "Print the result as JSON, and nothing else")->group("General");
}

int main(std::span<const std::string> arguments, const Context& context) {
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
    return complain(kFailed, "this is a mistake in Stretto; please report it");
  } catch (const std::exception& e) {
    return complain(kFailed, e.what());
  }
}

}  // namespace stretto::cli
