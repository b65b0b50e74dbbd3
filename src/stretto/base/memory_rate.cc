#include "stretto/base/memory_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/team.h"

namespace stretto {
namespace {

constexpr size_t kWords = (64 << 20) / sizeof(uint64_t);      // as many as the weights of a model
constexpr size_t kFewWords = (8 << 20) / sizeof(uint64_t);    // more than a core's own caches hold
constexpr int kPasses = 5, kMostThreads = 8;
constexpr std::string_view kHeader = "stretto-memory-rate 1\n";

uint64_t read_all(const uint64_t* words, int64_t begin, int64_t end) {
  uint64_t sums[8] = {};
  for (int64_t i = begin; i + 8 <= end; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

// The best of some passes: other work on the machine only makes them longer.
double measure(int threads, std::span<const uint64_t> words, int passes) {
  ThreadTeam team(threads);
  std::atomic<uint64_t> seen{0};
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const double start = now_s();
    team.run([&](const Worker& worker) {
      const Range mine = split(static_cast<int64_t>(words.size()), worker, 8);
      seen += read_all(words.data(), mine.begin, mine.end);
    });
    best = std::max(best, static_cast<double>(words.size_bytes()) / (now_s() - start));
  }
  return best;
}

// Two digits, so that estimates do not depend on more than was measured.
double rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

MemoryRate measure_here() {
  const std::vector<uint64_t> words(kWords, 1);
  const int threads = std::clamp(cpu_info().cores, 1, kMostThreads);
  const double one = measure(1, words, kPasses);
  const double together = threads > 1 ? std::max(measure(threads, words, kPasses), one) : one;
  const double again = std::max(measure(1, std::span(words).first(kFewWords), 4 * kPasses), one);
  return {.one = rounded(one), .together = rounded(together), .again = rounded(again)};
}

// Machines that share a home directory have a line each.
std::string key_here() {
  const CpuInfo& cpu = cpu_info();
  return fmt::format("{}\t{}\t{}\t", cpu.model, cpu.cores, cpu.l3_bytes);
}

struct Kept {
  MemoryRate here;     // zero: not there
  std::string others;  // lines of other machines
};

// Takes the field before the next tab from `line`.
bool take_number(std::string_view* line, double* value) {
  const std::string_view field = line->substr(0, line->find('\t'));
  line->remove_prefix(std::min(field.size() + 1, line->size()));
  const char* const end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data(), end, *value);
  return error == std::errc() && at == end && std::isfinite(*value) && *value > 0;
}

// A file that is not ours, or damaged, is as good as none: it is measured again, and replaced.
Kept read_kept() {
  Kept kept;
  std::error_code failed;
  const std::string path = memory_rate_file();
  if (path.empty() || !std::filesystem::is_regular_file(path, failed)) return kept;
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error&) {
    return kept;
  }
  if (!text.starts_with(kHeader)) return kept;
  const std::string key = key_here();
  std::string_view rest = std::string_view(text).substr(kHeader.size());
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.starts_with(key)) {
      kept.others.append(line).append("\n");
      continue;
    }
    line.remove_prefix(key.size());
    MemoryRate rate;
    if (take_number(&line, &rate.one) && take_number(&line, &rate.together) &&
        take_number(&line, &rate.again) && line.empty())
      kept.here = rate;
  }
  return kept;
}

void keep(const MemoryRate& rate, const std::string& others) {
  const std::string path = memory_rate_file();
  if (path.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(cache_directory(), failed);
  try {
    write_file(path, fmt::format("{}{}{}{:.0f}\t{:.0f}\t{:.0f}\n", kHeader, others, key_here(),
                                 rate.one, rate.together, rate.again));
  } catch (const Error&) {
    // Later processes measure again.
  }
}

}  // namespace

std::string memory_rate_file() {
  const std::string folder = cache_directory();
  return folder.empty() ? "" : folder + "/memory-rate.tsv";
}

const MemoryRate& memory_rate() {
  static const MemoryRate rate = [] {
    const Kept kept = read_kept();
    if (kept.here.one > 0) return kept.here;
    const MemoryRate measured = measure_here();
    keep(measured, kept.others);
    return measured;
  }();
  return rate;
}

MemoryRate refresh_memory_rate() {
  const MemoryRate measured = measure_here();
  const Kept kept = read_kept();
  const MemoryRate best{.one = std::max(measured.one, kept.here.one),
                        .together = std::max(measured.together, kept.here.together),
                        .again = std::max(measured.again, kept.here.again)};
  if (best != kept.here) keep(best, kept.others);
  return best;
}

double stream_bytes_per_second(int threads) {
  const MemoryRate& rate = memory_rate();
  const int measured = std::clamp(cpu_info().cores, 1, kMostThreads);
  // Between one and all, and beyond, each gets its share of what all together get.
  if (threads <= 1 || measured <= 1) return rate.one;
  return std::min(rate.one, rate.together / std::min(threads, measured));
}

}  // namespace stretto
