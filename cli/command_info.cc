#include "command_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "command.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

const std::vector<ExitCodeInfo>& exit_codes() {
  static const std::vector<ExitCodeInfo> kCodes{
      {"0", "success"},
      {"1", "the work failed: a bad file, a model that cannot run, a result that is off"},
      {"2", "bad usage: an option or a value is wrong"},
      {"3", "this computer lacks something: a program, a package, memory, disk space"},
      {"130", "ended by Ctrl-C"},
  };
  return kCodes;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

bool is_kind(const std::string& word) {
  return std::any_of(word.begin(), word.end(), [](char c) { return std::isupper(c); });
}

std::vector<std::string> value_words(const OptionInfo& option) {
  std::string_view value = option.value;
  if (value.ends_with(",...")) value.remove_suffix(4);
  return split(value, '|');
}

constexpr size_t kIndent = 2, kColumn = 28, kWidth = 92, kLongestValue = 60;

// `text` broken at spaces, every line but the first indented to `column`.
std::string wrapped(const std::string& text, size_t column) {
  std::string out;
  size_t used = column;
  for (const std::string& line : split(text, '\n')) {
    if (!out.empty()) {
      out += '\n' + std::string(column, ' ');
      used = column;
    }
    for (const std::string& word : split(line, ' ')) {
      if (used > column && used + 1 + word.size() > kWidth) {
        out += '\n' + std::string(column, ' ');
        used = column;
      } else if (used > column) {
        out += ' ';
        ++used;
      }
      out += word;
      used += word.size();
    }
  }
  return out;
}

std::string row(const OptionInfo& option) {
  std::string left;
  for (const std::string& name : option.names) left += (left.empty() ? "" : ", ") + name;
  std::string right = option.text;
  if (!option.positional && !option.value.empty()) {
    const bool many = option.value.size() > kLongestValue;
    left += " " + (many ? option.value.substr(0, option.value.find('|')) + "|..." : option.value);
    if (many) right += fmt::format(": {}", fmt::join(choices(option), ", "));
  }
  if (!option.fallback.empty()) right += fmt::format(" [{}]", option.fallback);
  return help_row(left, right);
}

std::string usage(const CommandInfo& command) {
  std::string text = command.name;
  const auto has_options = [](const OptionInfo& o) { return !o.positional; };
  if (std::any_of(command.options.begin(), command.options.end(), has_options))
    text += " [options]";
  for (const OptionInfo& option : command.options) {
    if (!option.positional) continue;
    const std::string word = option.names[0] + (option.repeatable ? "..." : "");
    text += option.required ? " " + word : " [" + word + "]";
  }
  if (!command.commands.empty()) {
    text += command.name.find(' ') == std::string::npos ? " VERB ..." : " [FAMILY ...]";
  }
  return text;
}

}  // namespace

std::string help_row(const std::string& left, const std::string& right) {
  std::string out(kIndent, ' ');
  out += left;
  if (right.empty()) return out + '\n';
  if (out.size() + 2 > kColumn) {
    out += '\n' + std::string(kColumn, ' ');
  } else {
    out.append(kColumn - out.size(), ' ');
  }
  return out + wrapped(right, kColumn) + '\n';
}

CommandInfo describe(const Command& command) {
  CommandInfo info{.name = command.name,
                   .summary = command.summary,
                   .examples = split(command.examples, '\n'),
                   .exit_codes = exit_codes()};
  for (const Command* above = command.above; above; above = above->above) {
    info.name = above->name + " " + info.name;
  }
  for (const Option& option : command.options) info.options.push_back(option.info);
  for (const Command& sub : command.commands) info.commands.push_back(describe(sub));
  return info;
}

std::vector<std::string> choices(const OptionInfo& option) {
  std::vector<std::string> words = value_words(option);
  std::erase_if(words, is_kind);
  return words;
}

std::vector<std::string> kinds(const OptionInfo& option) {
  std::vector<std::string> words = value_words(option);
  std::erase_if(words, [](const std::string& word) { return !is_kind(word); });
  return words;
}

std::string help_text(const CommandInfo& command) {
  std::string text = fmt::format("{}\n\nusage: {}\n", wrapped(command.summary, 0), usage(command));
  // The groups in the order in which the options name them, what every verb has last.
  std::vector<std::string> groups;
  for (const OptionInfo& option : command.options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  std::stable_partition(groups.begin(), groups.end(), [](auto& g) { return g.empty(); });
  std::stable_partition(groups.begin(), groups.end(), [](auto& g) { return g != "General"; });
  if (!command.commands.empty()) {
    text += '\n';
    for (const CommandInfo& sub : command.commands) {
      text += help_row(sub.name.substr(sub.name.rfind(' ') + 1), sub.summary);
    }
  }
  for (const std::string& group : groups) {
    text += group.empty() ? "\n" : fmt::format("\n{}\n", group);
    for (const OptionInfo& option : command.options) {
      if (option.group == group) text += row(option);
    }
  }
  if (!command.examples.empty()) {
    text += "\nExamples\n";
    for (const std::string& example : command.examples) text += "  " + example + '\n';
  }
  text += "\nExit codes\n";
  for (const ExitCodeInfo& code : command.exit_codes) {
    text += fmt::format("  {:<3}  {}\n", code.code, code.meaning);
  }
  return text;
}

json to_json(const CommandInfo& command) {
  json result{{"name", command.name},     {"summary", command.summary},
              {"usage", usage(command)},  {"examples", command.examples},
              {"options", json::array()}, {"commands", json::array()}};
  for (const OptionInfo& option : command.options) {
    result["options"].push_back({{"names", option.names},
                                 {"value", option.value},
                                 {"choices", choices(option)},
                                 {"text", option.text},
                                 {"group", option.group},
                                 {"default", option.fallback},
                                 {"positional", option.positional},
                                 {"required", option.required},
                                 {"repeatable", option.repeatable}});
  }
  for (const CommandInfo& sub : command.commands) result["commands"].push_back(to_json(sub));
  for (const ExitCodeInfo& row : command.exit_codes) {
    result["exit_codes"].push_back({{"code", row.code}, {"meaning", row.meaning}});
  }
  return result;
}

CommandInfo command_from_json(const json& given) {
  CommandInfo command{
      .name = given.at("name"), .summary = given.at("summary"), .examples = given.at("examples")};
  for (const json& option : given.at("options")) {
    command.options.push_back({.names = option.at("names"),
                               .value = option.at("value"),
                               .text = option.at("text"),
                               .group = option.at("group"),
                               .fallback = option.at("default"),
                               .positional = option.at("positional"),
                               .required = option.at("required"),
                               .repeatable = option.at("repeatable")});
  }
  for (const json& sub : given.at("commands")) command.commands.push_back(command_from_json(sub));
  for (const json& row : given.at("exit_codes")) {
    command.exit_codes.push_back({row.at("code"), row.at("meaning")});
  }
  return command;
}

}  // namespace stretto::cli
