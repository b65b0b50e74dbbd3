// The tuning cache: which candidate won for which problem, remembered between runs. cache_file.h
// reads and writes its file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace stretto::tune {

struct Choice {
  std::string candidate;
  double seconds = 0;  // best time seen; 0 when unknown
  bool operator==(const Choice&) const = default;
};

// To the resolution of the cache's text, so that decisions made from times in memory and from the
// same times read back are the same.
double quantise_seconds(double seconds);

// An ordered map from problem key (target included) to choice. Not thread-safe.
class TuningCache {
 public:
  std::optional<Choice> find(std::string_view key) const;
  void put(std::string key, Choice choice);
  void merge(const TuningCache& other);  // other wins
  // Drops those of `choices`, except where this names another candidate.
  void forget(const TuningCache& choices);
  size_t size() const { return choices_.size(); }
  bool empty() const { return choices_.empty(); }
  const std::map<std::string, Choice, std::less<>>& choices() const { return choices_; }

  // One "key <tab> candidate <tab> microseconds" per line under a header with the version; sorted,
  // so that files can be compared and merged by hand.
  std::string text() const;
  // Empty for the text of another version. Throws FormatError naming `file` and line.
  static TuningCache parse(std::string_view text, const std::string& file);

  // What ships with the product for common shapes, measured on this core (CpuInfo::core); empty for
  // cores that were not measured.
  static const TuningCache& shipped();
  static TuningCache shipped(std::string_view core);

 private:
  std::map<std::string, Choice, std::less<>> choices_;
};

// The version of Stretto that wrote `text`, from its header; empty when the text is no tuning
// cache.
std::string_view text_version(std::string_view text);

}  // namespace stretto::tune
