#include "stretto/tune/record.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/base/file.h"

namespace stretto::tune {
namespace {

constexpr std::string_view kHeader = "stretto-record " STRETTO_VERSION;

// A month.
constexpr double kMaxMicroseconds = 3e12;

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

std::optional<Choice> Record::find(std::string_view key) const {
  const auto at = choices_.find(key);
  if (at == choices_.end()) return std::nullopt;
  return at->second;
}

double quantise_seconds(double seconds) { return std::round(seconds * 1e10) * 1e-10; }

void Record::put(std::string key, Choice choice) {
  choice.seconds = quantise_seconds(choice.seconds);
  choices_.insert_or_assign(std::move(key), std::move(choice));
}

void Record::merge(const Record& other) {
  for (const auto& [key, choice] : other.choices_) choices_.insert_or_assign(key, choice);
}

std::string Record::text() const {
  std::string out(kHeader);
  out += '\n';
  for (const auto& [key, choice] : choices_) {
    out += fmt::format("{}\t{}\t{:.4f}\n", key, choice.candidate, choice.seconds * 1e6);
  }
  return out;
}

Record Record::parse(std::string_view text, const std::string& file) {
  Record record;
  if (next_line(text) != kHeader) return record;
  for (int number = 2; !text.empty(); ++number) {
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const size_t first = line.find('\t');
    const size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
    double microseconds = 0;
    // Infinite or undefined costs would leave layouts without a cheapest choice.
    const bool ok =
        second != std::string_view::npos &&
        std::from_chars(line.data() + second + 1, line.data() + line.size(), microseconds).ec ==
            std::errc{} &&
        std::fabs(microseconds) <= kMaxMicroseconds;
    if (!ok) {
      throw FormatError(file, -1,
                        fmt::format("line {}: expected key, candidate and microseconds "
                                    "separated by tabs; delete the file to start anew",
                                    number));
    }
    record.put(std::string(line.substr(0, first)),
               {std::string(line.substr(first + 1, second - first - 1)), microseconds * 1e-6});
  }
  return record;
}

std::string Record::default_path() { return cache_directory() + "/record-" STRETTO_VERSION ".tsv"; }

Record Record::load(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  return parse(read_file(path), path);
}

void Record::save(const std::string& path) const { write_file(path, text()); }

}  // namespace stretto::tune
