#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <new>

#include "stretto/stretto.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"optimize", "Make a faster, verified model from an ONNX file", set_up_optimize},
    {"infer", "Run a model on arrays from files", set_up_infer},
    {"bench", "Time a model, beside other engines if asked", set_up_bench},
    {"inspect", "Show a model, the passes, and what they do to it", set_up_inspect},
    {"run", "Start a training script on several ranks", set_up_run},
    {"kernels", "Time every kernel that fits a problem, and say why others do not", set_up_kernels},
};

// Names the alternatives for a word that is no subcommand, which CLI11 does not.
void check_subcommand(const CLI::App& app, std::span<const std::string> words) {
  const auto known = app.get_subcommands([](const CLI::App*) { return true; });
  if (known.empty() || words.empty() || words[0].starts_with('-')) return;
  std::string names;
  for (const CLI::App* sub : known) {
    if (sub->get_name() == words[0]) return check_subcommand(*sub, words.subspan(1));
    names += (names.empty() ? "" : ", ") + sub->get_name();
  }
  throw_invalid("{} has no '{}'; there are: {}", app.get_name(), words[0], names);
}

int parse_and_run(std::span<const std::string> arguments, const Context& context) {
  CLI::App app("Stretto: same model, same script, faster", "stretto");
  app.set_version_flag("--version", "stretto " + std::string(version()));
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_config("--config", "", "Options from a file, by verb: [optimize] disable=[\"...\"]");
  std::function<int()> chosen;
  for (const Verb& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(std::string(verb.name), std::string(verb.summary));
    sub->parse_complete_callback([&chosen, run = verb.set_up(*sub, context)] { chosen = run; });
  }
  check_subcommand(app, arguments);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kBadUsage;
  }
  return chosen ? chosen() : kBadUsage;
}

int complain(int code, const char* text) {
  std::fprintf(stderr, "stretto: %s\n", text);
  return code;
}

}  // namespace

int main(std::span<const std::string> arguments, const Context& context) {
  try {
    return parse_and_run(arguments, context);
  } catch (const InvalidArgument& e) {
    return complain(kBadUsage, e.what());
  } catch (const EnvironmentProblem& e) {
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
