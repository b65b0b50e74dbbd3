// What the command offers, read from the option tables of its verbs: the one source of the help,
// of `stretto help --json` and of shell completion.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace stretto::cli {

struct Command;

struct OptionInfo {
  std::vector<std::string> names;  // "-o", "--output"; one word for a positional argument
  // What stands for the value: words with capitals name a kind (FILE, N), others are the choices
  // themselves: "off|quick|full|SECONDS". A trailing ",..." means a list. Empty for a flag.
  std::string value;
  std::string text, group, fallback;  // fallback: the default as text; empty: none
  bool positional = false, required = false, repeatable = false;
};

struct ExitCodeInfo {
  std::string code, meaning;  // code: a number, or "N" for one that comes from elsewhere
};

struct CommandInfo {
  std::string name;     // as typed, from the program's name on: "stretto kernels conv2d"
  std::string summary;  // what it does, in one line
  std::vector<std::string> examples;
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;
  std::vector<ExitCodeInfo> exit_codes;
};

// `command` and everything below it.
CommandInfo describe(const Command& command);

// The words in `value` that are choices themselves: "off", "quick", "full".
std::vector<std::string> choices(const OptionInfo& option);
// The words in `value` that name a kind of value: "SECONDS".
std::vector<std::string> kinds(const OptionInfo& option);

std::string help_text(const CommandInfo& command);
// A line of it, or several: `right` is wrapped in its own column.
std::string help_row(const std::string& left, const std::string& right);

// In both directions; docs/formats/command-json.md has the fields.
nlohmann::json to_json(const CommandInfo& command);
CommandInfo command_from_json(const nlohmann::json& json);

}  // namespace stretto::cli
