#include "stretto/data/labels.h"

#include <charconv>
#include <optional>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

// Of "3", and of "3.0", as a column of numbers is written when one of them is missing.
std::optional<int64_t> number_of(std::string_view text) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end) return std::nullopt;
  return number;
}

[[noreturn]] void fail_mixed(const std::string& where, std::string_view label,
                             std::string_view before, std::string_view fix = {}) {
  throw FormatError(where, -1,
                    fmt::format("expected all labels to be names, or all to be numbers; those "
                                "before \"{}\" are {}{}",
                                label, before, fix));
}

}  // namespace

int64_t Labels::add_number(int64_t number, const std::string& where) {
  if (number == -1) return -1;  // none
  if (!names_.empty()) fail_mixed(where, std::to_string(number), "names");
  if (number < -1) {
    throw FormatError(where, -1, fmt::format("expected a label of at least 0, got {}", number));
  }
  numbers_ = true;
  return number;
}

int64_t Labels::add_name(std::string_view name, const std::string& where) {
  if (numbers_) fail_mixed(where, name, "numbers");
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  const auto number = static_cast<int64_t>(names_.size());
  names_.emplace(name, number);
  return number;
}

int64_t Labels::add_text(std::string_view text, const std::string& where) {
  const std::optional<int64_t> number = number_of(text);
  constexpr std::string_view kFix =
      "; for names that are digits, write the list as .jsonl with texts, such as \"label\": \"7\"";
  if (number && *number >= 0 && !names_.empty()) fail_mixed(where, text, "names", kFix);
  if (!number && numbers_) fail_mixed(where, text, "numbers", kFix);
  return number ? add_number(*number, where) : add_name(text, where);
}

void Labels::finish(TableBuilder& builder) const {
  if (numbers_) return;
  std::vector<int64_t> places(names_.size());
  for (const auto& [name, number] : names_) {
    places[static_cast<size_t>(number)] = static_cast<int64_t>(builder.table().class_names.size());
    builder.table().class_names.push_back(name);
  }
  builder.relabel(places);
}

}  // namespace stretto::data
