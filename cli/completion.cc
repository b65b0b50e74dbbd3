// stretto completion bash: one generator per shell, all from the same description.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "launcher.h"
#include "peers.h"
#include "stretto/stretto.h"

namespace stretto::cli {
namespace {

// The words that may stand for a kind of value: for PEER the peers' names. Empty for kinds that are
// not a list; files are completed by the shell itself.
using WordsOfKind = std::function<std::vector<std::string>(const std::string& kind)>;

struct Shell {
  std::string_view name;
  std::string_view how;  // one line: how to install the script
  std::string (*script)(const CommandInfo& command, const WordsOfKind& words);
};

bool takes_files(const OptionInfo& option) {
  for (const std::string& kind : kinds(option)) {
    if (kind.ends_with("FILE") || kind == "FOLDER") return true;
  }
  return false;
}

bool is_list(const OptionInfo& option) { return option.value.ends_with(",..."); }

std::vector<std::string> value_words(const OptionInfo& option, const WordsOfKind& words) {
  std::vector<std::string> all = choices(option);
  for (const std::string& kind : kinds(option)) {
    const std::vector<std::string> more = words(kind);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::string joined(const std::vector<std::string>& words, std::string_view separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

// Calls `visit` for a command and everything below it.
void walk(const CommandInfo& command, const std::function<void(const CommandInfo&)>& visit) {
  visit(command);
  for (const CommandInfo& sub : command.commands) walk(sub, visit);
}

// Bash: a case per command for its words, and a case per option for its values.
std::string bash_script(const CommandInfo& root, const WordsOfKind& words) {
  std::string paths, offers, values;
  walk(root, [&](const CommandInfo& command) {
    std::vector<std::string> options, subs;
    bool files = false;
    for (const OptionInfo& option : command.options) {
      if (option.positional) {
        files |= takes_files(option);
        for (const std::string& word : value_words(option, words)) subs.push_back(word);
        continue;
      }
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (option.value.empty()) continue;
      std::vector<std::string> cases;
      for (const std::string& name : option.names) {
        cases.push_back(fmt::format("\"{}:{}\"", command.name, name));
      }
      values += fmt::format("    {}) values=\"{}\" files={} list={} ;;\n", joined(cases, "|"),
                            joined(value_words(option, words)), takes_files(option) ? 1 : 0,
                            is_list(option) ? 1 : 0);
    }
    for (const CommandInfo& sub : command.commands) {
      subs.push_back(last_word(sub.name));
      paths += (paths.empty() ? "" : "|") + fmt::format("\"{}\"", sub.name);
    }
    offers += fmt::format("    \"{}\") options=\"{}\" words=\"{}\" files={} ;;\n", command.name,
                          joined(options), joined(subs), files ? 1 : 0);
  });
  std::string text = R"(# Completion of stretto for bash; written by 'stretto completion bash'.
_stretto() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  # Readline splits --option=value at the equals sign.
  if [[ $current == "=" ]]; then
    current=
  elif [[ $previous == "=" && $COMP_CWORD -gt 1 ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  local command=stretto at
  for ((at = 1; at < COMP_CWORD; ++at)); do
    case "$command ${COMP_WORDS[at]}" in
      @PATHS@) command="$command ${COMP_WORDS[at]}" ;;
    esac
  done
  local options= words= values= files= list=0
  case "$command:$previous" in
@VALUES@  esac
  if [[ -n $files ]]; then
    local before=
    if ((list)) && [[ $current == *,* ]]; then
      before=${current%,*},
      current=${current##*,}
    fi
    COMPREPLY=($(compgen -P "$before" -W "$values" -- "$current"))
    ((files)) && _stretto_files "$current"
    return
  fi
  case "$command" in
@OFFERS@  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  ((files)) && _stretto_files "$current"
}
_stretto_files() {
  local IFS=$'\n'
  COMPREPLY+=($(compgen -f -- "$1"))
  compopt -o filenames 2>/dev/null
}
complete -F _stretto stretto
)";
  const auto fill = [&](const std::string& mark, const std::string& with) {
    text.replace(text.find(mark), mark.size(), with);
  };
  fill("@PATHS@", paths);
  fill("@VALUES@", values);
  fill("@OFFERS@", offers);
  return text;
}

// Inside single quotes of zsh and fish; zsh's specifications give brackets and colons a meaning.
std::string quoted(const std::string& text, std::string_view special) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionInfo& option, const WordsOfKind& words) {
  const std::vector<std::string> offered = value_words(option, words);
  if (!offered.empty() && is_list(option))
    return fmt::format("_values -s , value {}", joined(offered));
  if (!offered.empty()) return fmt::format("({})", joined(offered));
  return takes_files(option) ? "_files" : " ";
}

std::string zsh_function(const std::string& command) {
  std::string name = "_" + command;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// Zsh: a function per command around _arguments.
std::string zsh_script(const CommandInfo& root, const WordsOfKind& words) {
  std::string text =
      "#compdef stretto\n# Completion of stretto for zsh; written by 'stretto "
      "completion zsh'.\n";
  walk(root, [&](const CommandInfo& command) {
    text += fmt::format("\n{}() {{\n", zsh_function(command.name));
    if (!command.commands.empty()) {
      text += "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    local -a verbs=(\n";
      for (const CommandInfo& sub : command.commands) {
        text += fmt::format("      '{}:{}'\n", last_word(sub.name), quoted(sub.summary, ":"));
      }
      text += "    )\n    _describe verb verbs\n    return\n  fi\n  case $words[2] in\n";
      for (const CommandInfo& sub : command.commands) {
        text += fmt::format("    {}) shift words; (( CURRENT-- )); {}; return ;;\n",
                            last_word(sub.name), zsh_function(sub.name));
      }
      text += "  esac\n";
    }
    text += "  _arguments";
    for (const OptionInfo& option : command.options) {
      const std::string action =
          option.value.empty()
              ? ""
              : fmt::format(":{}:{}", quoted(option.names.back(), ":"), zsh_action(option, words));
      if (option.positional) {
        text += fmt::format(" \\\n    '{}{}'", option.repeatable ? "*" : "", action);
        continue;
      }
      for (const std::string& name : option.names) {
        text += fmt::format(" \\\n    '*{}[{}]{}'", name, quoted(option.text, "[]:"), action);
      }
    }
    text += "\n}\n";
  });
  return text + "\n_stretto \"$@\"\n";
}

// Fish: a line per option. A command's line holds where its verb has been typed.
std::string fish_script(const CommandInfo& root, const WordsOfKind& words) {
  std::string text =
      "# Completion of stretto for fish; written by 'stretto completion fish'.\n"
      "complete -c stretto -f\n";
  walk(root, [&](const CommandInfo& command) {
    const bool top = &command == &root;
    const std::string verb = last_word(command.name);
    std::vector<std::string> below;
    for (const CommandInfo& sub : command.commands) below.push_back(last_word(sub.name));
    const std::string here =
        top ? "__fish_use_subcommand" : fmt::format("__fish_seen_subcommand_from {}", verb);
    const std::string none_yet =
        top || below.empty()
            ? here
            : fmt::format("{}; and not __fish_seen_subcommand_from {}", here, joined(below));
    for (const CommandInfo& sub : command.commands) {
      text += fmt::format("complete -c stretto -n '{}' -a {} -d '{}'\n", none_yet,
                          last_word(sub.name), quoted(sub.summary, "\\"));
    }
    for (const OptionInfo& option : command.options) {
      std::string line = fmt::format("complete -c stretto -n '{}'", here);
      if (!option.positional) {
        for (const std::string& name : option.names) {
          line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        }
        if (!option.value.empty()) line += " -r";
      }
      if (takes_files(option)) line += " -F";
      const std::vector<std::string> offered = value_words(option, words);
      if (!offered.empty()) line += fmt::format(" -a '{}'", joined(offered));
      text += line + fmt::format(" -d '{}'\n", quoted(option.text, "\\"));
    }
  });
  return text;
}

constexpr Shell kShells[] = {
    {"bash", "stretto completion bash > ~/.local/share/bash-completion/completions/stretto",
     bash_script},
    {"zsh", "stretto completion zsh > ~/.zfunc/_stretto    # a folder in $fpath", zsh_script},
    {"fish", "stretto completion fish > ~/.config/fish/completions/stretto.fish", fish_script},
};

std::vector<std::string> words_of_kind(const std::string& kind, const CommandInfo& root,
                                       const Context& context) {
  std::vector<std::string> words;
  if (kind == "PASS") {
    for (const auto& [name, summary] : list_passes()) words.push_back(name);
  } else if (kind == "VERB") {
    for (const CommandInfo& verb : root.commands) words.push_back(last_word(verb.name));
  } else if (kind == "PEER") {
    try {
      for (const Peer& peer : list_peers(context.python)) words.push_back(peer.name);
    } catch (const EnvironmentProblem& e) {
      context.talk->warn(fmt::format("the names of peers are missing: {}", e.what()));
    }
  }
  return words;
}

int run_completion(const Command& program, const std::string& name, const Context& context) {
  if (context.talk->json) context.talk->warn("--json has no effect: a script is no table");
  const CommandInfo root = describe_all(program, context);
  const auto words = [&](const std::string& kind) { return words_of_kind(kind, root, context); };
  for (const Shell& shell : kShells) {
    if (shell.name == name) fmt::print("{}", shell.script(root, words));
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_completion(Command& command, const Context& context) {
  auto name = std::make_shared<std::string>();
  std::vector<std::string> names, examples;
  for (const Shell& shell : kShells) {
    names.emplace_back(shell.name);
    examples.emplace_back(shell.how);
  }
  command.examples = joined(examples, "\n");
  add_option(command, "shell", name.get(), joined(names, "|"), "The shell to complete in",
             {.required = true, .one_of = names});
  return [&command, name, context] { return run_completion(*command.above, *name, context); };
}

}  // namespace stretto::cli
