#include "stretto/cluster/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "stretto/base/error.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {
namespace {

constexpr size_t kMostNames = 1'000'000;
constexpr size_t kMostDigits = 15;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(std::string_view list, std::string_view problem) {
  throw_invalid("'{}' is no list of names such as m[0-3],r0: {}",
                list.size() > 80 ? std::string(list.substr(0, 80)) + "..." : std::string(list),
                problem);
}

int64_t number(std::string_view list, std::string_view digits) {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    refuse(list, fmt::format("expected a number in brackets, got '{}'", digits));
  }
  if (digits.size() > kMostDigits) refuse(list, "a number in it is too long");
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// What "0-3,7" or "08-11" within brackets stands for.
std::vector<std::string> numbers(std::string_view list, std::string_view inside) {
  std::vector<std::string> all;
  for (size_t at = 0; at <= inside.size();) {
    const size_t end = std::min(inside.find(',', at), inside.size());
    const std::string_view part = inside.substr(at, end - at);
    const size_t dash = part.find('-');
    const std::string_view first = part.substr(0, dash);
    const std::string_view last = dash == part.npos ? first : part.substr(dash + 1);
    const int64_t low = number(list, first), high = number(list, last);
    if (high < low) refuse(list, fmt::format("{} is more than {}", first, last));
    if (static_cast<size_t>(high - low) >= kMostNames - std::min(kMostNames, all.size())) {
      refuse(list, "it stands for more than 1,000,000 names");
    }
    for (int64_t value = low; value <= high; ++value) {
      all.push_back(fmt::format("{:0{}}", value, first.size()));
    }
    at = end + 1;
  }
  return all;
}

// A name without its last number, and that number.
struct Numbered {
  std::string_view before, digits, after;
};

Numbered split_number(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  size_t start = end;
  while (start > 0 && end - start < kMostDigits && is_digit(name[start - 1])) --start;
  return {name.substr(0, start), name.substr(start, end - start), name.substr(end)};
}

int64_t value_of(std::string_view digits) {
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// Whether both numbers can stand in one range: those that keep zeros have the same width.
bool same_width(std::string_view a, std::string_view b) {
  const bool zeros = (a.size() > 1 && a[0] == '0') || (b.size() > 1 && b[0] == '0');
  return a.size() == b.size() || !zeros;
}

}  // namespace

std::vector<std::string_view> split_names(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  bool inside = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (list[i] == ',' && !inside) {
      parts.push_back(list.substr(start, i - start));
      start = i + 1;
    }
  }
  parts.push_back(list.substr(start));
  return parts;
}

bool names_before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const size_t first_i = i, first_j = j;
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
      std::string_view x = a.substr(first_i, i - first_i), y = b.substr(first_j, j - first_j);
      x.remove_prefix(std::min(x.find_first_not_of('0'), x.size()));
      y.remove_prefix(std::min(y.find_first_not_of('0'), y.size()));
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      if (i - first_i != j - first_j) return i - first_i < j - first_j;
      continue;
    }
    if (a[i] != b[j]) return a[i] < b[j];
    ++i, ++j;
  }
  return a.size() - i < b.size() - j;
}

std::vector<std::string> expand_names(std::string_view list) {
  std::vector<std::string> all;
  for (const std::string_view part : split_names(list)) {
    const size_t open = part.find('['), close = part.find(']');
    if (part.empty()) refuse(list, "a name in it is empty");
    if (open == part.npos && close == part.npos) {
      all.emplace_back(part);
    } else if (open == part.npos || close == part.npos || close < open) {
      refuse(list, "a bracket has no partner");
    } else if (part.find('[', open + 1) != part.npos || part.find(']', close + 1) != part.npos) {
      refuse(list, "a name has more than one pair of brackets");
    } else {
      const std::string_view before = part.substr(0, open), after = part.substr(close + 1);
      for (const std::string& each : numbers(list, part.substr(open + 1, close - open - 1))) {
        all.push_back(fmt::format("{}{}{}", before, each, after));
      }
    }
    if (all.size() > kMostNames) refuse(list, "it stands for more than 1,000,000 names");
  }
  return all;
}

std::string compact_names(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end(), names_before);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::string out;
  for (size_t i = 0; i < sorted.size();) {
    const Numbered first = split_number(sorted[i]);
    std::string ranges;
    size_t count = 0, at = i;
    while (at < sorted.size() && !first.digits.empty()) {
      const Numbered low = split_number(sorted[at]);
      if (low.before != first.before || low.after != first.after || low.digits.empty()) break;
      size_t end = at + 1;
      for (; end < sorted.size(); ++end) {
        const Numbered next = split_number(sorted[end]);
        const Numbered last = split_number(sorted[end - 1]);
        if (next.before != first.before || next.after != first.after || next.digits.empty() ||
            !same_width(low.digits, next.digits) || !same_width(last.digits, next.digits) ||
            value_of(next.digits) != value_of(last.digits) + 1) {
          break;
        }
      }
      if (!ranges.empty()) ranges += ',';
      ranges += low.digits;
      if (end - at > 1) ranges += fmt::format("-{}", split_number(sorted[end - 1]).digits);
      count += end - at;
      at = end;
    }
    if (!out.empty()) out += ',';
    if (count < 2) {
      out += sorted[i++];
    } else {
      out += fmt::format("{}[{}]{}", first.before, ranges, first.after);
      i = at;
    }
  }
  return out;
}

}  // namespace stretto::cluster
