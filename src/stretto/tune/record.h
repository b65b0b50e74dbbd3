// The record: which candidate won for which problem, remembered between runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace stretto::tune {

struct Choice {
  std::string candidate;
  double seconds = 0;  // best time seen; 0 when unknown
};

// To the resolution of the record's text, so that decisions made from times in memory and from the
// same times read back are the same.
double quantise_seconds(double seconds);

// An ordered map from problem key (target included) to choice. Not thread-safe.
class Record {
 public:
  std::optional<Choice> find(std::string_view key) const;
  void put(std::string key, Choice choice);
  void merge(const Record& other);  // other wins
  size_t size() const { return choices_.size(); }
  const std::map<std::string, Choice, std::less<>>& choices() const { return choices_; }

  // One "key <tab> candidate <tab> microseconds" per line under a header with the version; sorted,
  // so that files can be compared and merged by hand. parse throws FormatError naming `file` and
  // line.
  std::string text() const;
  static Record parse(std::string_view text, const std::string& file);

  // The user's record for this version. load returns an empty record when there is none, and when
  // the file was written by another version.
  static std::string default_path();
  static Record load(const std::string& path);
  void save(const std::string& path) const;

  // What ships with the product for common shapes, measured on this core (CpuInfo::core); empty for
  // cores that were not measured.
  static const Record& shipped();
  static Record shipped(std::string_view core);

 private:
  std::map<std::string, Choice, std::less<>> choices_;
};

}  // namespace stretto::tune
