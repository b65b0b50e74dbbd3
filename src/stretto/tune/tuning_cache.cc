#include "stretto/tune/tuning_cache.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::tune {
namespace {

constexpr std::string_view kName = "stretto-tuning-cache ";

// A month.
constexpr double kMaxMicroseconds = 3e12;

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool read_number(std::string_view text, double& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

}  // namespace

std::optional<Choice> TuningCache::find(std::string_view key) const {
  const auto at = choices_.find(key);
  if (at == choices_.end()) return std::nullopt;
  return at->second;
}

double quantise_seconds(double seconds) { return std::round(seconds * 1e10) * 1e-10; }

void TuningCache::put(std::string key, Choice choice) {
  choice.seconds = quantise_seconds(choice.seconds);
  choices_.insert_or_assign(std::move(key), std::move(choice));
}

void TuningCache::merge(const TuningCache& other) {
  for (const auto& [key, choice] : other.choices_) choices_.insert_or_assign(key, choice);
}

void TuningCache::forget(const TuningCache& choices) {
  std::erase_if(choices_, [&](const auto& entry) {
    const auto named = choices.find(entry.first);
    return named && named->candidate == entry.second.candidate;
  });
}

std::string TuningCache::text() const {
  std::string out = fmt::format("{}{}\n", kName, STRETTO_VERSION);
  for (const auto& [key, choice] : choices_) {
    out += fmt::format("{}\t{}\t{:.4f}\n", key, choice.candidate, choice.seconds * 1e6);
  }
  return out;
}

std::string_view text_version(std::string_view text) {
  const std::string_view header = next_line(text);
  return header.starts_with(kName) ? header.substr(kName.size()) : std::string_view();
}

TuningCache TuningCache::parse(std::string_view text, const std::string& file) {
  TuningCache cache;
  if (text_version(text) != STRETTO_VERSION) return cache;
  next_line(text);
  for (int number = 2; !text.empty(); ++number) {
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const size_t first = line.find('\t');
    const size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
    double microseconds = 0;
    // Infinite or undefined costs would leave layouts without a cheapest choice.
    const bool ok = second != std::string_view::npos &&
                    read_number(line.substr(second + 1), microseconds) &&
                    std::fabs(microseconds) <= kMaxMicroseconds;
    if (!ok) {
      throw FormatError(
          file, -1,
          fmt::format("line {}: expected key, candidate and microseconds separated by tabs",
                      number));
    }
    cache.put(std::string(line.substr(0, first)),
              {std::string(line.substr(first + 1, second - first - 1)), microseconds * 1e-6});
  }
  return cache;
}

}  // namespace stretto::tune
