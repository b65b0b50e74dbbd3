#include "stretto/data/labels.h"

#include <charconv>
#include <optional>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end || number < -1) return std::nullopt;
  return number;
}

[[noreturn]] void fail_mixed(const std::string& where) {
  throw FormatError(where, -1, "expected all labels to be names, or all to be numbers");
}

}  // namespace

int64_t Labels::add_number(int64_t number, const std::string& where) {
  if (number == -1) return -1;  // none
  if (!names_.empty()) fail_mixed(where);
  if (number < -1) {
    throw FormatError(where, -1, fmt::format("expected a label of at least 0, got {}", number));
  }
  numbers_ = true;
  return number;
}

int64_t Labels::add_name(std::string_view name, const std::string& where) {
  if (numbers_) fail_mixed(where);
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  const auto number = static_cast<int64_t>(names_.size());
  names_.emplace(name, number);
  return number;
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

void Labels::finish_text(TableBuilder& builder) const {
  std::vector<int64_t> values(names_.size());
  for (const auto& [name, number] : names_) {
    const std::optional<int64_t> value = number_of(name);
    if (!value) return finish(builder);
    values[static_cast<size_t>(number)] = *value;
  }
  builder.relabel(values);
}

}  // namespace stretto::data
