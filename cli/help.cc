// stretto help [VERB ...] | help environment; with --json the whole command as data.
#include <memory>
#include <nlohmann/json.hpp>

#include "environment.h"
#include "launcher.h"
#include "stretto/stretto.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kEnvironmentPage = "environment";

const CommandInfo& find(const CommandInfo& command, std::span<const std::string> words) {
  if (words.empty()) return command;
  std::string names;
  for (const CommandInfo& sub : command.commands) {
    const std::string name = sub.name.substr(sub.name.rfind(' ') + 1);
    if (name == words[0]) return find(sub, words.subspan(1));
    names += (names.empty() ? "" : ", ") + name;
  }
  throw_invalid("help: {} has no '{}'; there are: {}", command.name, words[0],
                names.empty() ? "none" : names);
}

int run_help(const Command& root, const std::vector<std::string>& words, const Context& context) {
  if (words.size() == 1 && words[0] == kEnvironmentPage) {
    if (context.talk->json) {
      print_json({{"environment", environment_json()}});
    } else {
      fmt::print("{}", environment_text());
    }
    return kOk;
  }
  const CommandInfo whole = describe_all(root, context);
  const CommandInfo& asked = find(whole, words);
  if (!context.talk->json) {
    fmt::print("{}", help_text(asked));
    return kOk;
  }
  json result = to_json(asked);
  if (words.empty()) {
    result["version"] = version();
    result["environment"] = environment_json();
  }
  print_json(result);
  return kOk;
}

}  // namespace

std::function<int()> set_up_help(Command& command, const Context& context) {
  auto words = std::make_shared<std::vector<std::string>>();
  add_option(command, "words", words.get(), "VERB|environment",
             "A verb, or environment for the environment variables");
  return [&command, words, context] { return run_help(*command.above, *words, context); };
}

}  // namespace stretto::cli
