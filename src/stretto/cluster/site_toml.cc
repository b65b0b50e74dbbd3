#include "stretto/cluster/site_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "stretto/base/error.h"
#include "stretto/base/spelling.h"
#include "stretto/cluster/site_characters.h"
#include "stretto/cluster/site_keys.h"

namespace stretto::cluster {
namespace {

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// For messages: what may be long or hold control characters.
std::string shown(std::string_view text) {
  size_t end = std::min<size_t>(text.size(), 64);
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80) --end;  // whole characters
  std::string out;
  for (const char c : text.substr(0, end)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return end < text.size() ? out + "..." : out;
}

std::string guess(std::string_view word, const std::vector<std::string>& known) {
  const std::string meant = word.size() > 64 ? "" : nearest_word(word, known);
  return meant.empty() ? "" : fmt::format(", did you mean {}?", meant);
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Why `text` is not what `form` says; empty if it is.
std::string problem_of(std::string_view text, const KeyForm& form) {
  if (text.empty()) return form.kind == KeyKind::kDevices ? "" : "it is empty";
  if (text.size() > form.longest) return fmt::format("it is longer than {}", form.longest);
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view others = i == 0 ? form.first : form.others;
    if (is_letter_or_digit(text[i]) || others.find(text[i]) != others.npos) continue;
    size_t end = i + 1;
    while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
    return fmt::format("it may not {} '{}'", i == 0 ? "begin with" : "contain",
                       shown(text.substr(i, end - i)));
  }
  // Slurm gives these a meaning of their own.
  if (form.kind == KeyKind::kName || form.kind == KeyKind::kNames) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (lower == "default" || lower == "all") return "Slurm means something else by this word";
  }
  return "";
}

// One table of the file, and the rows of keys() that are about it.
class Table {
 public:
  Table(const toml::table& node, std::string_view name, const std::string& file)
      : node_(node), name_(name), file_(file), line_(line_of(node)) {
    std::vector<std::string> known;
    for (const Key& key : keys()) {
      if (key.table == name) known.emplace_back(key.name);
    }
    if (name.empty()) {
      for (const KeyTable& table : key_tables()) {
        if (!table.name.empty()) known.emplace_back(table.name.substr(0, table.name.find('.')));
      }
    }
    for (const auto& [key, value] : node) {
      if (std::count(known.begin(), known.end(), key.str())) continue;
      fail(static_cast<int>(key.source().begin.line),
           fmt::format("{} has no key '{}'{}; there are: {}", header_of(name_), shown(key.str()),
                       guess(key.str(), known), fmt::join(known, ", ")));
    }
    for (const Key& key : keys()) {
      if (key.table == name && key.rules.required && !node.contains(key.name)) {
        fail(line_, fmt::format("{} needs {}", header_of(name_), key.name));
      }
    }
  }

  int line() const { return line_; }
  bool has(std::string_view name) const { return node_.contains(name); }

  // Empty if the file does not say it and there is no default.
  std::string text(std::string_view name) const {
    const Key& key = key_of(name_, name);
    const toml::node* const value = node_.get(name);
    if (!value) return key.fallback.empty() ? "" : std::string(unquoted(key.fallback));
    const KeyForm& form = form_of(key.kind);
    if (!value->is_string()) wrong(key, *value, "");
    const std::string& word = value->as_string()->get();
    if (const std::string problem = problem_of(word, form); !problem.empty()) {
      wrong(key, *value, fmt::format("'{}': {}", shown(word), problem));
    }
    return word;
  }

  std::vector<std::string> texts(std::string_view name) const {
    const Key& key = key_of(name_, name);
    const toml::node* const value = node_.get(name);
    std::vector<std::string> all;
    if (!value) return all;
    if (!value->is_array()) wrong(key, *value, "");
    for (const toml::node& each : *value->as_array()) {
      if (!each.is_string()) wrong(key, each, "a list with " + kind_of(each));
      const std::string& word = each.as_string()->get();
      const std::string problem = problem_of(word, form_of(key.kind));
      if (!problem.empty()) wrong(key, each, fmt::format("'{}': {}", shown(word), problem));
      if (std::count(all.begin(), all.end(), word)) {
        fail(line_of(each), fmt::format("{} {}: {} is named twice", header_of(name_), name, word));
      }
      all.push_back(word);
    }
    return all;
  }

  double number(std::string_view name) const {
    const Key& key = key_of(name_, name);
    const toml::node* const value = node_.get(name);
    if (!value) return std::strtod(std::string(key.fallback).c_str(), nullptr);
    const bool whole = key.kind == KeyKind::kCount;
    if (!value->is_integer() && (whole || !value->is_floating_point())) wrong(key, *value, "");
    const double number = value->is_integer() ? static_cast<double>(value->as_integer()->get())
                                              : value->as_floating_point()->get();
    if (!(number >= key.rules.least && number <= key.rules.most)) {
      fail(line_of(*value),
           fmt::format("{} {}: expected {} from {:g} to {:.0f}, got {:g}", header_of(name_), name,
                       form_of(key.kind).words, key.rules.least, key.rules.most, number));
    }
    return number;
  }
  int count(std::string_view name) const { return static_cast<int>(number(name)); }

  bool truth(std::string_view name) const {
    const Key& key = key_of(name_, name);
    const toml::node* const value = node_.get(name);
    if (!value) return key.fallback == "true";
    if (!value->is_boolean()) wrong(key, *value, "");
    return value->as_boolean()->get();
  }

  int64_t time(std::string_view name) const {
    const Key& key = key_of(name_, name);
    const std::string word = text(name);
    if (word.empty()) return 0;
    const int64_t seconds = parse_time(word);
    if (seconds <= 0) wrong(key, *node_.get(name), fmt::format("'{}'", shown(word)));
    return seconds;
  }

  std::string choice(std::string_view name) const {
    const Key& key = key_of(name_, name);
    const std::string word = text(name);
    std::vector<std::string> known;
    for (size_t at = 0; at <= key.rules.choices.size();) {
      const size_t end = std::min(key.rules.choices.find('|', at), key.rules.choices.size());
      known.emplace_back(key.rules.choices.substr(at, end - at));
      at = end + 1;
    }
    if (!std::count(known.begin(), known.end(), word)) {
      fail(line_of(*node_.get(name)),
           fmt::format("{} {}: expected {}, got '{}'{}", header_of(name_), name,
                       fmt::join(known, ", "), shown(word), guess(word, known)));
    }
    return word;
  }

  [[noreturn]] void wrong(std::string_view name, const std::string& got) const {
    wrong(key_of(name_, name), *node_.get(name), got);
  }

 private:
  static std::string_view unquoted(std::string_view literal) {
    return literal.size() > 1 && literal[0] == '"' ? literal.substr(1, literal.size() - 2)
                                                   : literal;
  }

  static std::string kind_of(const toml::node& value) {
    if (value.is_table()) return "a table";
    if (value.is_array()) return "a list";
    if (value.is_string()) return "a text";
    if (value.is_boolean()) return "true or false";
    if (value.is_integer()) return "a whole number";
    if (value.is_floating_point()) return "a number with a fraction";
    return "a date or time";
  }

  [[noreturn]] void wrong(const Key& key, const toml::node& value, const std::string& got) const {
    fail(line_of(value), fmt::format("{} {}: expected {}, got {}", header_of(name_), key.name,
                                     form_of(key.kind).words, got.empty() ? kind_of(value) : got));
  }

  [[noreturn]] void fail(int line, const std::string& problem) const {
    fail_at(file_, line, problem);
  }

  const toml::table& node_;
  std::string_view name_;
  const std::string& file_;
  int line_;
};

class Reader {
 public:
  Reader(const toml::table& root, const std::string& file)
      : root_(root), file_(file), top_(root, "", file) {}

  SiteText read() {
    out_.site.file = file_;
    out_.site.name = top_.text("name");
    chips();
    for (const toml::table* node : list("nodes")) read_nodes(Table(*node, "nodes", file_));
    for (const toml::table* node : list("groups")) read_group(Table(*node, "groups", file_));
    reserve();
    preemption();
    for (const toml::table* node : list("queues")) read_queue(Table(*node, "queues", file_));
    for (const toml::table* node : list("users")) read_user(Table(*node, "users", file_));
    limits();
    kubernetes();
    return std::move(out_);
  }

 private:
  // The tables of [[name]].
  std::vector<const toml::table*> list(std::string_view name) {
    std::vector<const toml::table*> all;
    const toml::node* const node = root_.get(name);
    if (!node) return all;
    if (!node->is_array()) {
      fail_at(file_, line_of(*node), fmt::format("{0}: expected tables [[{0}]]", name));
    }
    for (const toml::node& each : *node->as_array()) {
      if (!each.is_table()) {
        fail_at(file_, line_of(each), fmt::format("{0}: expected tables [[{0}]]", name));
      }
      all.push_back(each.as_table());
    }
    return all;
  }

  // [name]; null if the file has none. The defaults then are those of an empty table.
  const toml::table* single(std::string_view name) {
    const toml::node* const node = root_.get(name);
    if (node && !node->is_table()) {
      fail_at(file_, line_of(*node), fmt::format("{0}: expected a table [{0}]", name));
    }
    return node ? node->as_table() : nullptr;
  }

  void chips() {
    const toml::table* const kinds = single("chips");
    if (!kinds) return;
    for (const auto& [key, value] : *kinds) {
      const std::string name(key.str());
      const int line = static_cast<int>(key.source().begin.line);
      const std::string problem = problem_of(name, form_of(KeyKind::kName));
      if (!problem.empty()) {
        fail_at(file_, line,
                fmt::format("[chips.KIND]: '{}' is no name of a kind: {}", shown(name), problem));
      }
      if (!value.is_table()) {
        fail_at(file_, line, fmt::format("chips.{0}: expected a table [chips.{0}]", name));
      }
      const Table table(*value.as_table(), "chips.KIND", file_);
      ChipKind kind{.name = name,
                    .gres = table.text("gres"),
                    .devices = table.text("devices"),
                    .resource = table.text("resource"),
                    .line = table.line()};
      const size_t colon = kind.gres.find(':');
      if (!kind.gres.empty() &&
          ((kind.gres[0] >= '0' && kind.gres[0] <= '9') || colon == 0 ||
           colon == kind.gres.size() - 1 || kind.gres.find('-') < colon ||
           (colon != std::string::npos && kind.gres.find(':', colon + 1) != std::string::npos))) {
        table.wrong("gres", fmt::format("'{}'", kind.gres));
      }
      const size_t slash = kind.resource.find('/');
      if (slash == std::string::npos || slash == kind.resource.size() - 1 ||
          kind.resource.find('/', slash + 1) != std::string::npos) {
        table.wrong("resource", fmt::format("'{}'", kind.resource));
      }
      if (!kind.devices.empty() && kind.devices[0] != '/') {
        table.wrong("devices", fmt::format("'{}'", kind.devices));
      }
      if (table.has("devices")) out_.devices_said.insert(name);
      out_.site.chips.emplace(name, std::move(kind));
    }
  }

  void read_nodes(const Table& table) {
    NodeSet set{.chip = table.text("chip"),
                .chips = table.count("chips"),
                .cores = table.count("cores"),
                .build = table.text("build"),
                .rack = table.text("rack"),
                .address = table.text("address"),
                .instance = table.text("instance"),
                .line = table.line()};
    set.memory_mb = std::llround(table.number("memory_gb") * 1024);
    out_.node_names.push_back(table.text("names"));
    out_.site.nodes.push_back(std::move(set));
  }

  void read_group(const Table& table) {
    Group group{.name = table.text("name"), .spill = table.texts("spill"), .line = table.line()};
    const std::string sizes = table.text("chips");
    const char *at = sizes.data(), *end = at + sizes.size();
    auto [rest, code] = std::from_chars(at, end, group.least_chips);
    bool good = code == std::errc() && sizes[0] != '-';
    if (good && rest == end) {
      group.most_chips = group.least_chips;
      if (good && group.most_chips == 0) out_.without_chips.insert(group.name);
    } else if (good && *rest == '-') {
      const auto last = std::from_chars(rest + 1, end, group.most_chips);
      good = last.ec == std::errc() && last.ptr == end && group.most_chips > 0 &&
             group.most_chips >= group.least_chips;
    } else {
      good = good && *rest == '+' && rest + 1 == end;
    }
    if (!good || group.least_chips > 10'000'000) {
      table.wrong("chips", fmt::format("'{}'", sizes));
    }
    out_.group_nodes.push_back(table.text("nodes"));
    out_.site.groups.push_back(std::move(group));
  }

  void reserve() {
    const toml::table* const node = single("reserve");
    if (!node) return;
    const Table table(*node, "reserve", file_);
    out_.reserve_nodes = table.text("nodes");
    out_.lend_said = table.has("lend");
    out_.site.reserve = {.nodes = {},
                         .queues = table.texts("queues"),
                         .lend = !out_.lend_said || table.truth("lend"),
                         .line = table.line()};
    if (out_.site.reserve.queues.empty()) table.wrong("queues", "an empty list");
  }

  void preemption() {
    const toml::table empty;
    const toml::table* const node = single("preemption");
    const Table table(node ? *node : empty, "preemption", file_);
    const std::string mode = table.choice("mode");
    out_.site.preemption = {.mode = mode == "off"      ? Preemption::kOff
                                    : mode == "cancel" ? Preemption::kCancel
                                                       : Preemption::kRequeue,
                            .grace_s = table.count("grace_s"),
                            .line = node ? table.line() : 0};
  }

  void read_queue(const Table& table) {
    out_.site.queues.push_back({.name = table.text("name"),
                                .priority = table.count("priority"),
                                .preempts = table.truth("preempts"),
                                .is_default = table.truth("default"),
                                .users = table.texts("users"),
                                .groups = table.texts("groups"),
                                .most_chips = table.count("max_chips"),
                                .longest_s = table.time("max_time"),
                                .line = table.line()});
  }

  void read_user(const Table& table) {
    out_.site.users.push_back({.name = table.text("name"),
                               .share = table.number("share"),
                               .most_chips = table.count("max_chips"),
                               .line = table.line()});
  }

  void limits() {
    const toml::table empty;
    const toml::table* const node = single("limits");
    const Table table(node ? *node : empty, "limits", file_);
    out_.default_time_said = table.has("default_time");
    out_.site.limits = {.longest_s = table.time("max_time"),
                        .default_s = table.time("default_time"),
                        .most_chips = table.count("max_chips"),
                        .most_nodes = table.count("max_nodes"),
                        .line = node ? table.line() : 0};
  }

  void kubernetes() {
    const toml::table* const node = single("kubernetes");
    if (!node) return;
    const Table table(*node, "kubernetes", file_);
    out_.site.kubernetes.line = table.line();
    if (table.has("pod_security")) out_.site.kubernetes.pod_security = table.choice("pod_security");
  }

  const toml::table& root_;
  const std::string& file_;
  Table top_;
  SiteText out_;
};

}  // namespace

void fail_at(const std::string& file, int line, const std::string& problem) {
  throw FormatError(fmt::format("{}:{}", file, line), -1, problem);
}

int64_t parse_time(std::string_view text) {
  std::vector<int64_t> numbers;
  std::string marks;  // what stands behind each number
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    int value = 0;
    const auto [rest, code] = std::from_chars(at, end, value);
    if (code != std::errc() || value < 0 || rest - at > 6 || *at == '-') return -1;
    numbers.push_back(value);
    if (rest < end) marks += *rest;
    at = rest < end ? rest + 1 : rest;
    if (rest < end && at == end && (*rest == '-' || *rest == ':')) return -1;
  }
  if (numbers.size() == 1 && marks.size() == 1) {
    constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    for (const auto& [unit, seconds] : kUnits) {
      if (marks[0] == unit) return numbers[0] * seconds;
    }
    return -1;
  }
  const bool days = marks.starts_with('-');
  if (marks != "::" && marks != "-" && marks != "-:" && marks != "-::") return -1;
  if (days ? numbers.size() < 2 : numbers.size() != 3) return -1;
  const int64_t whole_days = days ? numbers[0] : 0;
  numbers.erase(numbers.begin(), numbers.begin() + (days ? 1 : 0));
  numbers.resize(3);
  if ((days && numbers[0] > 23) || numbers[1] > 59 || numbers[2] > 59) return -1;
  return ((whole_days * 24 + numbers[0]) * 60 + numbers[1]) * 60 + numbers[2];
}

SiteText read_toml(std::string_view text, const std::string& file) {
  check_characters(text, file);
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail_at(file, static_cast<int>(error.source().begin.line), std::string(error.description()));
  }
  return Reader(root, file).read();
}

}  // namespace stretto::cluster
