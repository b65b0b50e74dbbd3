#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <istream>
#include <iterator>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/base/spelling.h"
#include "toml.h"

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

// Why `word` is no T of `range`, to follow the option's name; empty when it is one.
template <typename T>
std::string number_problem(const std::string& word, const std::optional<Range>& range) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::invalid_argument || end != word.data() + word.size()) {
    return fmt::format("'{}' is not a {}number", word, std::is_integral_v<T> ? "whole " : "");
  }
  const T lowest = range ? static_cast<T>(range->lowest) : std::numeric_limits<T>::lowest();
  const T highest = range ? static_cast<T>(range->highest) : std::numeric_limits<T>::max();
  const bool inside = error == std::errc{} && value >= lowest && value <= highest;
  return inside ? "" : fmt::format("{} is not in the range {} to {}", word, lowest, highest);
}

// Of an option whose variable holds numbers.
std::optional<CLI::Validator> number_check(const Option& option) {
  const auto check = [&]<typename T>(T) {
    return CLI::Validator(
        [range = option.rules.range](std::string& word) { return number_problem<T>(word, range); },
        "");
  };
  const OptionTarget& target = option.target;
  if (std::holds_alternative<int*>(target) || std::holds_alternative<std::vector<int>*>(target)) {
    return check(int{});
  }
  if (std::holds_alternative<int64_t*>(target)) return check(int64_t{});
  // What is not a number at all, nan, has tests of its own.
  if (std::holds_alternative<double*>(target) && option.rules.range) return check(double{});
  return std::nullopt;
}

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
  if (const auto check = number_check(option)) added->check(*check);
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
  const std::string meant = nearest_word(word, known);
  return meant.empty() ? "" : ", did you mean " + meant + "?";
}

const Option* find_option(const Command& command, std::string_view name) {
  for (const Option& option : command.options) {
    const std::vector<std::string>& names = option.info.names;
    if (std::find(names.begin(), names.end(), name) != names.end()) return &option;
  }
  return nullptr;
}

// The words from the first one on that is neither an option of `command` nor its value.
std::span<const std::string> after_options(const Command& command,
                                           std::span<const std::string> words) {
  while (!words.empty() && words[0].starts_with('-')) {
    const Option* const option = find_option(command, words[0]);
    const bool has_value = option && !option->info.value.empty();
    words = words.subspan(std::min<size_t>(has_value ? 2 : 1, words.size()));
  }
  return words;
}

std::vector<std::string> names_below(const Command& command) {
  std::vector<std::string> names;
  for (const Command& sub : command.commands) names.push_back(sub.name);
  return names;
}

// Names the alternatives for a word that is no command, which CLI11 does not.
void check_names(const Command& command, std::span<const std::string> words) {
  if (command.commands.empty()) return;
  words = after_options(command, words);
  if (words.empty()) return;
  for (const Command& sub : command.commands) {
    if (sub.name == words[0]) return check_names(sub, words.subspan(1));
  }
  const std::vector<std::string> names = names_below(command);
  throw_invalid("{} has no '{}'{}; there are: {}", command.name, words[0], guess(words[0], names),
                fmt::join(names, ", "));
}

// An item of a file of options as the parser takes it. Throws InvalidArgument for what the command
// does not have.
void check_item(const Command& root, const TomlItem& item, const std::string& where) {
  const Command* command = &root;
  for (const std::string& name : item.section) {
    const auto is_it = [&](const Command& sub) { return sub.name == name; };
    const auto at = std::find_if(command->commands.begin(), command->commands.end(), is_it);
    if (at == command->commands.end()) {
      const std::vector<std::string> names = names_below(*command);
      throw_invalid("{}: {} has no '{}'{}{}", where, command->name, name, guess(name, names),
                    names.empty() ? "" : fmt::format("; there are: {}", fmt::join(names, ", ")));
    }
    command = &*at;
  }
  if (command->parses_itself) {
    throw_invalid("{}: '{}' takes its options from the command line only", where, command->name);
  }
  if (item.name.empty()) return;
  std::vector<std::string> known;
  for (const Option& option : command->options) {
    if (option.info.positional || std::holds_alternative<ShowHelp>(option.target) ||
        std::holds_alternative<ShowVersion>(option.target) ||
        std::holds_alternative<ReadConfig>(option.target)) {
      continue;
    }
    for (const std::string& name : option.info.names) {
      known.push_back(name.substr(std::min(name.find_first_not_of('-'), name.size())));
      if (known.back() != item.name) continue;
      if (option.info.repeatable || item.values.size() == 1) return;
      throw_invalid("{}: {} takes one value, got {}", where, item.name, item.values.size());
    }
  }
  std::erase_if(known, [](const std::string& name) { return name.size() == 1; });
  throw_invalid("{}: {} has no option {}{}; there are: {}", where, command->name, item.name,
                guess(item.name, known), fmt::join(known, ", "));
}

// Reads the file of --config for the parser.
class ConfigFile : public CLI::Config {
 public:
  ConfigFile(const Command& root, const CLI::App& app) : root_(root), app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const auto file = app_.get_config_ptr()->as<std::string>();
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    std::vector<CLI::ConfigItem> items;
    for (TomlItem& item : parse_toml(text, file)) {
      check_item(root_, item, fmt::format("{}:{}", file, item.line));
      if (item.values.empty()) continue;
      items.emplace_back();
      items.back().parents = std::move(item.section);
      items.back().name = std::move(item.name);
      items.back().inputs = std::move(item.values);
    }
    return items;
  }

 private:
  const Command& root_;
  const CLI::App& app_;
};

[[noreturn]] void refuse(const Command& command, std::string_view problem) {
  throw_invalid("{}; '{} --help' lists what there is", problem, describe(command).name);
}

// The outermost command that has words which are neither its options nor its arguments.
Named with_extras(const CLI::App& app, Command& command) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  if (parsed.empty() || app.remaining_size() > 0) return {app, command};
  const CLI::App& below = *parsed.back();
  const auto is_it = [&](const Command& sub) { return sub.name == below.get_name(); };
  return with_extras(below, *std::find_if(command.commands.begin(), command.commands.end(), is_it));
}

std::string unexpected(const Named& at) {
  const std::vector<std::string> words = at.app.remaining();
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with('-') && word != "--";
  });
  if (option == words.end()) {
    return fmt::format("{} takes no further argument '{}'", at.command.name, words.back());
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
  const Option* const option = find_option(command, name);
  return option && option->given;
}

std::function<int()> parse(Command& root, std::span<const std::string> words) {
  check_names(root, words);
  CLI::App app("", root.name);
  add_all(app, root);
  app.config_formatter(std::make_shared<ConfigFile>(root, app));
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return print(help_text(describe(named(app, root).command)));
  } catch (const CLI::CallForVersion& e) {
    return print(fmt::format("{}\n", e.what()));
  } catch (const CLI::ExtrasError&) {
    const Named at = with_extras(app, root);
    refuse(at.command, unexpected(at));
  } catch (const CLI::FileError&) {
    throw_invalid("--config: {} cannot be read", app.get_config_ptr()->as<std::string>());
  } catch (const CLI::ArgumentMismatch& e) {
    std::string text = e.what();  // "--rows: At Most 1 required but received 2"
    if (const size_t at = text.find(": At Most 1"); at != std::string::npos) {
      text.replace(at, std::string::npos, " is given twice");
    } else if (text.ends_with(" missing")) {  // "--rows: 1 required N missing"
      text.replace(text.find(": "), std::string::npos, " needs a value");
    }
    refuse(named(app, root).command, text);
  } catch (const CLI::RequiredError& e) {
    const Command& command = named(app, root).command;
    if (command.commands.empty() || command.run) refuse(command, e.what());
    refuse(command,
           fmt::format("{} needs a verb: {}", command.name, fmt::join(names_below(command), ", ")));
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
