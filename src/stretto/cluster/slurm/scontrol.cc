#include "stretto/cluster/slurm/scontrol.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/cluster/names.h"
#include "stretto/cluster/output.h"
#include "stretto/cluster/site_toml.h"

namespace stretto::cluster {
namespace {

constexpr size_t kShownLine = 60;  // of a line, in errors

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::string_view meant(std::string_view value) {
  return value == "(null)" || value == "N/A" || value == "n/a" ? "" : value;
}

// "NodeName=m0 CPUTot=8 OS=Linux 6.1 #1 Gres=gpu:8 Comment=...": values may have spaces, and texts
// of users come last, so the first field of a name counts.
Fields fields_of(std::string_view line) {
  Fields fields;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    const size_t equals = word.find('=');
    if (equals == word.npos || equals == 0) continue;
    fields.emplace(word.substr(0, equals), meant(word.substr(equals + 1)));
  }
  return fields;
}

}  // namespace

Fields config_of_scontrol(std::string_view text) {
  Fields fields;
  for (const std::string_view line : lines_of(text)) {
    const size_t equals = line.find('=');
    if (equals == line.npos || equals == 0) continue;
    const size_t last = line.find_last_not_of(' ', equals - 1);
    const size_t value = line.find_first_not_of(' ', equals + 1);
    if (last == line.npos) continue;
    fields.emplace(line.substr(0, last + 1), value == line.npos ? "" : meant(line.substr(value)));
  }
  if (!fields.count("SelectType")) {
    throw FormatError("scontrol show config", -1, "expected lines such as 'SelectType = ...'");
  }
  return fields;
}

std::map<std::string, Fields> objects_of_scontrol(std::string_view text, std::string_view key) {
  std::map<std::string, Fields> all;
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with("No ")) continue;  // "No reservations in the system"
    Fields fields = fields_of(line);
    const auto name = fields.find(std::string(key));
    if (!line.starts_with(fmt::format("{}=", key)) || name->second.empty()) {
      throw FormatError("scontrol -a -o show", -1,
                        fmt::format("expected lines that begin with {}=, found '{}'", key,
                                    in_comment(line.substr(0, kShownLine))));
    }
    std::string word = name->second;
    all.emplace(std::move(word), std::move(fields));
  }
  return all;
}

std::map<std::string, int64_t> gres_counts(std::string_view text) {
  std::string plain;  // where the chips are is the machine's own affair
  bool inside = false;
  for (const char c : text) {
    if (c == '(') inside = true;
    if (!inside) plain += c;
    if (c == ')') inside = false;
  }
  std::map<std::string, int64_t> counts;
  for (const std::string_view item : split_names(plain)) {
    const size_t colon = item.rfind(':');
    int64_t count = 1;
    std::string_view name = item;
    if (colon != item.npos) {
      const char* begin = item.data() + colon + 1;
      const char* end = item.data() + item.size();
      int32_t value = 0;
      const auto [stop, problem] = std::from_chars(begin, end, value);
      if (problem == std::errc() && stop == end && value >= 0) {
        count = value;
        name = item.substr(0, colon);
      }
    }
    if (!meant(name).empty()) counts[std::string(name)] += count;
  }
  return counts;
}

int64_t scontrol_time(std::string_view text) {
  if (text == "UNLIMITED" || text == "NONE") return 0;
  return parse_time(text);
}

}  // namespace stretto::cluster
