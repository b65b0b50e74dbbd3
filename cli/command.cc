#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "spelling.h"
#include "stretto/base/error.h"

namespace stretto::cli {
namespace {

// What a variable holds, as the help shows it; empty for vectors and for what is no variable.
std::string text_of(const OptionTarget& target) {
  return std::visit(
      [](const auto& variable) -> std::string {
        using T = std::remove_cvref_t<decltype(variable)>;
        if constexpr (std::is_pointer_v<T> &&
                      fmt::is_formattable<std::remove_pointer_t<T>>::value) {
          return fmt::format("{}", *variable);
        } else {
          return "";
        }
      },
      target);
}

// Adds an option to the parser's own; one function per kind of OptionTarget.
struct Adder {
  CLI::App& app;
  std::string names;

  CLI::Option* operator()(bool* variable) const { return app.add_flag(names, *variable); }
  CLI::Option* operator()(ShowHelp) const { return app.set_help_flag(names); }
  CLI::Option* operator()(const ShowVersion& version) const {
    return app.set_version_flag(names, version.text);
  }
  CLI::Option* operator()(ReadConfig) const { return app.set_config(names); }
  template <typename T>
  CLI::Option* operator()(T* variable) const {
    return app.add_option(names, *variable);
  }
};

void add(CLI::App& app, const Option& option) {
  const OptionInfo& info = option.info;
  const OptionRules& rules = option.rules;
  const std::string names = fmt::format("{}", fmt::join(info.names, ","));
  CLI::Option* added = std::visit(Adder{app, names}, option.target);
  added->required(rules.required);
  if (!info.value.empty()) added->type_name(info.value);
  if (info.value.ends_with(",...")) added->delimiter(',');
  if (!rules.one_of.empty()) added->check(CLI::IsMember(rules.one_of));
  if (!rules.excludes.empty()) added->excludes(app.get_option(rules.excludes));
  if (!rules.range) return;
  if (const auto [lowest, highest] = *rules.range; std::holds_alternative<double*>(option.target)) {
    added->check(CLI::Range(lowest, highest));
  } else {
    added->check(CLI::Range(static_cast<int64_t>(lowest), static_cast<int64_t>(highest)));
  }
}

void add_all(CLI::App& app, const Command& command) {
  app.set_help_flag();  // without an argument: takes away the one that every App begins with
  for (const Option& option : command.options) add(app, option);
  if (command.parses_itself) app.prefix_command();
  if (!command.commands.empty()) app.require_subcommand(command.run ? 0 : 1, 1);
  for (const Command& sub : command.commands) {
    CLI::App* below = app.add_subcommand(sub.name);
    // Where there is a callback, what a verb requires is checked as soon as its words are read;
    // else later, when the file of --config has been read too.
    below->parse_complete_callback([] {});
    add_all(*below, sub);
  }
}

// A command of the tree and the parser's counterpart.
struct Named {
  const CLI::App& app;
  Command& command;
};

// The innermost command that was named.
Named named(const CLI::App& app, Command& command) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  if (parsed.empty()) return {app, command};
  const CLI::App& below = *parsed.back();
  const auto is_it = [&](const Command& sub) { return sub.name == below.get_name(); };
  return named(below, *std::find_if(command.commands.begin(), command.commands.end(), is_it));
}

std::string guess(const std::string& word, std::span<const std::string> known) {
  const std::string meant = nearest(word, known);
  return meant.empty() ? "" : ", did you mean " + meant + "?";
}

// Names the alternatives for a word that is no command, which CLI11 does not.
void check_names(const Command& command, std::span<const std::string> words) {
  if (command.commands.empty() || words.empty() || words[0].starts_with('-')) return;
  std::vector<std::string> names;
  for (const Command& sub : command.commands) {
    if (sub.name == words[0]) return check_names(sub, words.subspan(1));
    names.push_back(sub.name);
  }
  throw_invalid("{} has no '{}'{}; there are: {}", command.name, words[0], guess(words[0], names),
                fmt::join(names, ", "));
}

[[noreturn]] void refuse(const Command& command, std::string_view problem) {
  throw_invalid("{}; '{} --help' lists what there is", problem, describe(command).name);
}

// For words that are neither options nor arguments of the command.
std::string unexpected(const Named& at) {
  const std::vector<std::string> words = at.app.remaining();
  const auto option = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.starts_with('-'); });
  if (option == words.end()) {
    return fmt::format("{} takes no further argument '{}'", at.command.name,
                       words.empty() ? "" : words.back());
  }
  std::vector<std::string> known;
  for (const Option& each : at.command.options) {
    for (const std::string& name : each.info.names) {
      if (name.starts_with("--")) known.push_back(name);
    }
  }
  const std::string word = option->substr(0, option->find('='));
  return fmt::format("{} has no option {}{}", at.command.name, word, guess(word, known));
}

std::function<int()> print(const std::string& text) {
  return [text] {
    std::fputs(text.c_str(), stdout);
    return 0;
  };
}

}  // namespace

Command& add_command(Command& above, Command command) {
  command.above = &above;
  return above.commands.emplace_back(std::move(command));
}

void add_option(Command& command, const std::string& names, OptionTarget target, std::string value,
                std::string text, OptionRules rules) {
  OptionInfo info{.names = CLI::detail::split_names(names),
                  .value = std::move(value),
                  .text = std::move(text),
                  .group = rules.group,
                  .fallback = rules.show_default ? text_of(target) : "",
                  .positional = !names.starts_with('-'),
                  .required = rules.required,
                  .repeatable = std::holds_alternative<std::vector<int>*>(target) ||
                                std::holds_alternative<std::vector<std::string>*>(target)};
  command.options.push_back({std::move(info), std::move(target), std::move(rules)});
}

void add_flag(Command& command, const std::string& names, OptionTarget target, std::string text,
              OptionRules rules) {
  add_option(command, names, std::move(target), "", std::move(text), std::move(rules));
}

bool was_given(const Command& command, std::string_view name) {
  return std::any_of(command.options.begin(), command.options.end(), [&](const Option& option) {
    const std::vector<std::string>& names = option.info.names;
    return option.given && std::find(names.begin(), names.end(), name) != names.end();
  });
}

std::function<int()> parse(Command& root, std::span<const std::string> words) {
  check_names(root, words);
  CLI::App app("", root.name);
  add_all(app, root);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return print(help_text(describe(named(app, root).command)));
  } catch (const CLI::CallForVersion& e) {
    return print(fmt::format("{}\n", e.what()));
  } catch (const CLI::ExtrasError&) {
    const Named at = named(app, root);
    refuse(at.command, unexpected(at));
  } catch (const CLI::ParseError& e) {
    refuse(named(app, root).command, e.what());
  }
  const Named at = named(app, root);
  for (Option& option : at.command.options) {
    option.given = at.app.get_option(option.info.names[0])->count() > 0;
  }
  at.command.words = at.app.remaining();
  return at.command.run;
}

}  // namespace stretto::cli
