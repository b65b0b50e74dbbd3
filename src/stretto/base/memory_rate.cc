#include "stretto/base/memory_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/memory.h"
#include "stretto/base/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stretto {
namespace {

// As many as the weights of a model, where there is memory for them.
constexpr int64_t kBytes = 128 << 20, kFewBytes = 16 << 20;
constexpr int kPasses = 4, kMostThreads = 8;
constexpr MemoryRate kTypical{.one = 20e9, .together = 40e9};
constexpr std::string_view kHeader = "stretto-memory-rate 2\n";

// So many processes measure. Whatever else a machine does when the first one comes would otherwise
// count for ever.
constexpr int kMostTimes = 5;

thread_local int without_measuring = 0;

// Reads whole blocks of 256 bytes. With loads as wide as those of the kernels, because on an Intel
// server narrow ones get half of the memory rate.
using Read = void (*)(const float* begin, const float* end);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void read_avx512(const float* p, const float* end) {
  __m512 sums[4] = {};
  for (; p < end; p += 64) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sums[i] = _mm512_add_ps(sums[i], _mm512_loadu_ps(p + 16 * i));
  }
  asm volatile("" : : "v"(sums[0]), "v"(sums[1]), "v"(sums[2]), "v"(sums[3]));
}

__attribute__((target("avx2"))) void read_avx2(const float* p, const float* end) {
  __m256 sums[8] = {};
  for (; p < end; p += 64) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sums[i] = _mm256_add_ps(sums[i], _mm256_loadu_ps(p + 8 * i));
  }
  for (const __m256& sum : sums) asm volatile("" : : "x"(sum));
}
#endif

void read_portable(const float* p, const float* end) {
  using Vector = float __attribute__((vector_size(16), aligned(4)));
  Vector sums[16] = {};
  for (; p < end; p += 64) {
    for (int i = 0; i < 16; ++i) sums[i] += *reinterpret_cast<const Vector*>(p + 4 * i);
  }
  for (const Vector& sum : sums) asm volatile("" : : "m"(sum));
}

Read reader() {
#if defined(__x86_64__)
  if (cpu_info().isa == Isa::kAvx512) return read_avx512;
  if (cpu_info().isa == Isa::kAvx2) return read_avx2;
#endif
  return read_portable;
}

// The best of some passes: other work on the machine only makes them longer.
double measure(int threads, std::span<const float> values) {
  ThreadTeam team(threads);
  const Read read = reader();
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = now_s();
    team.run([&](const Worker& worker) {
      const Range mine = split(static_cast<int64_t>(values.size()), worker, 64);
      read(values.data() + mine.begin, values.data() + mine.end);
    });
    best = std::max(best, static_cast<double>(values.size_bytes()) / (now_s() - start));
  }
  return best;
}

// Two digits, so that estimates do not depend on more than was measured.
double rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

MemoryRate measure_here() {
  const int64_t bytes = std::clamp(total_memory_bytes() / 16, kFewBytes, kBytes);
  const std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float), 1.0f);
  const int threads = std::clamp(cpu_info().cores, 1, kMostThreads);
  const double one = measure(1, values);
  const double together = threads > 1 ? std::max(measure(threads, values), one) : one;
  return {.one = rounded(one), .together = rounded(together)};
}

// Machines that share a home directory have a line each.
std::string key_here() {
  const CpuInfo& cpu = cpu_info();
  return fmt::format("{}\t{}\t{}\t", cpu.model, cpu.cores, cpu.l3_bytes);
}

struct Kept {
  MemoryRate here;     // zero: not there
  int times = 0;       // it was measured
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
    double times = 0;
    if (take_number(&line, &rate.one) && take_number(&line, &rate.together) &&
        take_number(&line, &times) && line.empty()) {
      kept.here = rate;
      kept.times = static_cast<int>(std::min<double>(times, kMostTimes));
    }
  }
  return kept;
}

void keep(const Kept& kept) {
  const std::string path = memory_rate_file();
  if (path.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(cache_directory(), failed);
  try {
    write_file(path, fmt::format("{}{}{}{:.0f}\t{:.0f}\t{}\n", kHeader, kept.others, key_here(),
                                 kept.here.one, kept.here.together, kept.times));
  } catch (const Error&) {
    // Later processes measure again.
  }
}

// Other work on the machine only makes it slower, so the faster of two measurements is the better
// one. Within a tenth they are the same: models are then compiled as before.
double faster(double kept, double measured) { return measured > 1.1 * kept ? measured : kept; }

void measure_again(Kept& kept) {
  const MemoryRate measured = measure_here();
  const Kept before = kept;
  kept.here = {.one = faster(kept.here.one, measured.one),
               .together = faster(kept.here.together, measured.together)};
  kept.here.together = std::max(kept.here.together, kept.here.one);
  kept.times = std::min(kept.times + 1, kMostTimes);
  if (kept.here != before.here || kept.times != before.times) keep(kept);
}

}  // namespace

std::string memory_rate_file() {
  const std::string folder = cache_directory();
  return folder.empty() ? "" : folder + "/memory-rate.tsv";
}

WithoutMeasuring::WithoutMeasuring() { ++without_measuring; }
WithoutMeasuring::~WithoutMeasuring() { --without_measuring; }

MemoryRate memory_rate() {
  static std::mutex mutex;
  static std::optional<Kept> kept;
  std::lock_guard lock(mutex);
  static bool measured = false;
  if (!kept) kept = read_kept();
  if (measured || kept->times >= kMostTimes) return kept->here;
  if (without_measuring > 0) return kept->here.one > 0 ? kept->here : kTypical;
  measured = true;
  measure_again(*kept);
  return kept->here;
}

MemoryRate refresh_memory_rate() {
  Kept kept = read_kept();
  measure_again(kept);
  return kept.here;
}

double stream_bytes_per_second(int threads) {
  const MemoryRate rate = memory_rate();
  const int measured = std::clamp(cpu_info().cores, 1, kMostThreads);
  // Between one and all, and beyond, each gets its share of what all together get.
  if (threads <= 1 || measured <= 1) return rate.one;
  return std::min(rate.one, rate.together / std::min(threads, measured));
}

}  // namespace stretto
