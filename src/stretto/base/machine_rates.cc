#include "stretto/base/machine_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/measure_rates.h"

namespace stretto {
namespace {

// Of what cores get together that do nothing but read. With all of it, kernels with more weights
// were chosen that saved no time (docs/design/tuning.md).
constexpr double kWhileComputing = 0.7;

constexpr MemoryRate kTypicalMemory{.one = 20e9, .together = 40e9};
constexpr std::string_view kHeader = "stretto-machine-rates 2\n";

// So many processes measure. Whatever else a machine does when the first one comes would otherwise
// count for ever.
constexpr int kMostTimes = 5;

thread_local int without_measuring = 0;

// Two digits, so that estimates do not depend on more than was measured.
double rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

// How many of kIsas this processor has.
size_t own_isas() {
  return static_cast<size_t>(std::find(kIsas.begin(), kIsas.end(), cpu_info().isa) -
                             kIsas.begin()) +
         1;
}

void measure_peaks(MachineRates& rates) {
  for (size_t i = 0; i < own_isas(); ++i) rates.peaks[i] = rounded(measure_peak(kIsas[i]));
}

MachineRates measure_here() {
  const MemoryRate memory = measure_memory();
  MachineRates rates{.memory = {.one = rounded(memory.one), .together = rounded(memory.together)}};
  measure_peaks(rates);
  return rates;
}

// Machines that share a home directory have a line each.
std::string key_here() {
  const CpuInfo& cpu = cpu_info();
  return fmt::format("{}\t{}\t{}\t", cpu.model, cpu.cores, cpu.l3_bytes);
}

struct Kept {
  MachineRates here;   // zero: not there
  int times = 0;       // they were measured
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
  const std::string path = machine_rates_file();
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
    MachineRates rates;
    double times = 0;
    bool read = take_number(&line, &rates.memory.one) && take_number(&line, &rates.memory.together);
    for (size_t i = 0; i < own_isas(); ++i) read = read && take_number(&line, &rates.peaks[i]);
    if (read && take_number(&line, &times) && line.empty()) {
      kept.here = rates;
      kept.times = static_cast<int>(std::min<double>(times, kMostTimes));
    }
  }
  return kept;
}

void keep(const Kept& kept) {
  const std::string path = machine_rates_file();
  if (path.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(cache_directory(), failed);
  std::string line = fmt::format("{}{:.0f}\t{:.0f}\t", key_here(), kept.here.memory.one,
                                 kept.here.memory.together);
  for (size_t i = 0; i < own_isas(); ++i) line += fmt::format("{:.0f}\t", kept.here.peaks[i]);
  try {
    write_file(path, fmt::format("{}{}{}{}\n", kHeader, kept.others, line, kept.times));
  } catch (const Error&) {
    // Later processes measure again.
  }
}

// Other work on the machine only makes it slower, so the faster of two measurements is the better
// one. Within a tenth they are the same: models are then compiled as before.
double faster(double kept, double measured) { return measured > 1.1 * kept ? measured : kept; }

void measure_again(Kept& kept) {
  const MachineRates measured = measure_here();
  const Kept before = kept;
  MachineRates& here = kept.here;
  here.memory.one = faster(here.memory.one, measured.memory.one);
  here.memory.together =
      std::max(faster(here.memory.together, measured.memory.together), here.memory.one);
  for (size_t i = 0; i < here.peaks.size(); ++i) {
    here.peaks[i] = faster(here.peaks[i], measured.peaks[i]);
  }
  kept.times = std::min(kept.times + 1, kMostTimes);
  if (here != before.here || kept.times != before.times) keep(kept);
}

// What a process uses that may not take the time to measure memory.
MachineRates typical_memory() {
  MachineRates rates{.memory = kTypicalMemory};
  measure_peaks(rates);
  return rates;
}

}  // namespace

std::string machine_rates_file() {
  const std::string folder = cache_directory();
  return folder.empty() ? "" : folder + "/machine-rates.tsv";
}

WithoutMeasuring::WithoutMeasuring() { ++without_measuring; }
WithoutMeasuring::~WithoutMeasuring() { --without_measuring; }

MachineRates machine_rates() {
  static std::mutex mutex;
  static std::optional<Kept> kept;
  static bool measured = false;
  std::lock_guard lock(mutex);
  if (!kept) kept = read_kept();
  if (measured || kept->times >= kMostTimes) return kept->here;
  if (without_measuring > 0) {
    static const MachineRates typical = typical_memory();
    return kept->times > 0 ? kept->here : typical;
  }
  measured = true;
  measure_again(*kept);
  return kept->here;
}

MachineRates refresh_machine_rates() {
  Kept kept = read_kept();
  measure_again(kept);
  return kept.here;
}

double peak_flops(Isa isa) {
  const Isa own = std::min(isa, cpu_info().isa);
  const auto at = std::find(kIsas.begin(), kIsas.end(), own);
  STRETTO_CHECK(at != kIsas.end(), "peak_flops: {} is of another architecture", isa_name(isa));
  return machine_rates().peaks[static_cast<size_t>(at - kIsas.begin())];
}

double stream_bytes_per_second(int threads) {
  const MemoryRate rate = machine_rates().memory;
  const int measured = std::clamp(cpu_info().cores, 1, kMostMemoryThreads);
  if (threads <= 1 || measured <= 1) return rate.one;
  // Between one and all, and beyond, each gets its share of what all together get.
  return std::min(rate.one, kWhileComputing * rate.together / std::min(threads, measured));
}

}  // namespace stretto
