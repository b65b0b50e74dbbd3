#include "stretto/runtime/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "stretto/base/cpu.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stretto::runtime {
namespace {

constexpr std::string_view kPrefix = "model ";
constexpr std::string_view kTuned = "tuned", kDefault = "default";

std::string hash_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

// Machines may share a home directory, and so a tuning cache.
std::string machine() {
  const CpuInfo& cpu = cpu_info();
  std::string text =
      fmt::format("{} {} x{} {}+{}", cpu.model, cpu.core, cpu.cores, cpu.l2_bytes, cpu.l3_bytes);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

template <typename T>
bool read(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end && std::isfinite(static_cast<double>(value)) &&
         value >= 0;
}

std::string text_of(const Verdict& verdict) {
  const Contest& contest = verdict.contest;
  return fmt::format("{} {:g} {} {:.6f} {:.6f} {:.4f} {}", verdict.default_kept ? kDefault : kTuned,
                     verdict.budget_s, verdict.plan, contest.first_ms, contest.second_ms,
                     contest.ratio, contest.rounds);
}

std::optional<Verdict> parse(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() != 7 || (words[0] != kTuned && words[0] != kDefault)) return std::nullopt;
  Verdict verdict{.plan = std::string(words[2]), .default_kept = words[0] == kDefault};
  Contest& contest = verdict.contest;
  const bool ok = read(words[1], verdict.budget_s) && read(words[3], contest.first_ms) &&
                  read(words[4], contest.second_ms) && read(words[5], contest.ratio) &&
                  read(words[6], contest.rounds);
  if (!ok) return std::nullopt;
  return verdict;
}

}  // namespace

std::string verdict_key(std::string_view default_plan, const kernels::Target& target) {
  return fmt::format("{}{} on {} {}", kPrefix, hash_of(default_plan), machine(),
                     kernels::target_text(target));
}

std::optional<Verdict> find_verdict(const tune::TuningCache& cache, std::string_view default_plan,
                                    std::string_view plan, const kernels::Target& target) {
  const auto found = cache.find(verdict_key(default_plan, target));
  if (!found) return std::nullopt;
  std::optional<Verdict> verdict = parse(found->candidate);
  if (!verdict || verdict->plan != hash_of(plan)) return std::nullopt;
  return verdict;
}

tune::TuningCache verdict_entry(Verdict verdict, std::string_view default_plan,
                                std::string_view plan, const kernels::Target& target) {
  verdict.plan = hash_of(plan);
  const Contest& contest = verdict.contest;
  const double kept_ms = verdict.default_kept ? contest.second_ms : contest.first_ms;
  tune::TuningCache entry;
  entry.put(verdict_key(default_plan, target), {text_of(verdict), kept_ms * 1e-3});
  return entry;
}

bool has_verdicts(const tune::TuningCache& cache) {
  const auto at = cache.choices().lower_bound(kPrefix);
  return at != cache.choices().end() && at->first.starts_with(kPrefix);
}

}  // namespace stretto::runtime
