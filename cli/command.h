// The command and its verbs as plain data: options that set variables, and what to run. parse()
// reads words into them. Only command.cc includes the parser's library (CLI11), whose templates
// take seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "command_info.h"

namespace stretto::cli {

struct ShowHelp {};
struct ShowVersion {
  std::string text;
};
// The value names a TOML file with options by verb. What the words of the command line say wins.
struct ReadConfig {};

// What an option does: it sets a variable, which has to last as long as the command. The name alone
// sets a bool; a vector takes several values.
using OptionTarget = std::variant<bool*, int*, int64_t*, double*, std::string*, std::vector<int>*,
                                  std::vector<std::string>*, ShowHelp, ShowVersion, ReadConfig>;

struct Range {
  double lowest, highest;  // both are in it
};

struct OptionRules {
  std::string group;  // its heading in the help
  bool required = false;
  bool show_default = false;  // the help shows what the variable holds now
  std::optional<Range> range;
  std::vector<std::string> one_of;  // the values there are; empty: any
  std::string excludes;             // an option added earlier that may not be given as well
};

struct Option {
  OptionInfo info;
  OptionTarget target;
  OptionRules rules;
  bool given = false;  // parse() sets it
};

struct Command {
  std::string name, summary;
  std::string examples;        // one per line
  bool parses_itself = false;  // has no options here; its words are left as they are
  std::vector<Option> options;
  std::list<Command> commands;     // below it: from then on it must not move
  const Command* above = nullptr;  // null: it is the program
  std::function<int()> run;        // returns the exit code; empty: one of `commands` must be named
  std::vector<std::string> words;  // where it parses itself; parse() sets them
};

// The reference stays valid. Nothing may be below `command` yet.
Command& add_command(Command& above, Command command);

// `names`: "-o,--output"; without dashes a positional argument. `value` and `text`: as in
// OptionInfo. Where `value` ends with ",...", values are split at commas.
void add_option(Command& command, const std::string& names, OptionTarget target, std::string value,
                std::string text, OptionRules rules = {});

// An option without a value.
void add_flag(Command& command, const std::string& names, OptionTarget target, std::string text,
              OptionRules rules = {});

// Whether `name`, "--output", is an option that was given.
bool was_given(const Command& command, std::string_view name);

// Sets the variables of the options in `words`, and returns what the words ask for: to run the
// command that they name, or to print the help or the version. Throws InvalidArgument for words
// that the command does not take, and for a file of options that is no TOML or has other keys.
std::function<int()> parse(Command& root, std::span<const std::string> words);

}  // namespace stretto::cli
