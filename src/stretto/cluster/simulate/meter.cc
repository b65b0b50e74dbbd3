#include "stretto/cluster/simulate/meter.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stretto::cluster {
namespace {

constexpr std::array<const char*, kWaitClasses> kClasses = {"0 chips", "1 chip",       "2-7 chips",
                                                            "8 chips", "over 8 chips", "urgent"};

// The smallest value that at least this part of the values does not exceed, moved to where it would
// stand if they were sorted. Nothing before `from` is above what stands there: ask for small parts
// first.
double at_rank(std::vector<int64_t>& values, double part, size_t& from) {
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(values.size())));
  const size_t at = std::max(rank, from + 1) - 1;
  const auto begin = values.begin();
  std::nth_element(begin + static_cast<std::ptrdiff_t>(from),
                   begin + static_cast<std::ptrdiff_t>(at), values.end());
  from = at;
  return static_cast<double>(values[at]) / 1000;
}

}  // namespace

size_t wait_class(int chips, bool urgent) {
  if (urgent) return 5;
  if (chips <= 1) return static_cast<size_t>(chips);
  return chips < 8 ? 2 : chips == 8 ? 3 : 4;
}

WaitStats wait_stats(std::string name, std::vector<int64_t>& values_ms) {
  WaitStats stats{.name = std::move(name), .jobs = static_cast<int64_t>(values_ms.size())};
  if (values_ms.empty()) return stats;
  double sum = 0;
  for (const int64_t value : values_ms) sum += static_cast<double>(value);
  stats.mean_s = sum / static_cast<double>(values_ms.size()) / 1000;
  size_t from = 0;
  stats.p50_s = at_rank(values_ms, 0.50, from);
  stats.p95_s = at_rank(values_ms, 0.95, from);
  stats.p99_s = at_rank(values_ms, 0.99, from);
  stats.longest_s = at_rank(values_ms, 1, from);
  return stats;
}

void Meter::pass_time(int64_t ms, int64_t used, int64_t total, int64_t waiting) {
  const double free = waiting > 0 ? static_cast<double>(total - used) : 0;
  const auto length = static_cast<double>(ms);
  used_ += static_cast<double>(used) * length;
  stranded_ += free * length;
  if (waiting > 0) {
    busy_ms_ += length;
    busy_used_ += static_cast<double>(used) * length;
  }
  while (elapsed_ms_ + ms > interval_ms_ * static_cast<int64_t>(kIntervals)) {
    for (size_t i = 0; i < kIntervals; ++i) {
      const size_t a = 2 * i;
      intervals_[i] = a < kIntervals ? Interval{intervals_[a].used + intervals_[a + 1].used,
                                                intervals_[a].stranded + intervals_[a + 1].stranded,
                                                intervals_[a].waiting + intervals_[a + 1].waiting}
                                     : Interval{};
    }
    interval_ms_ *= 2;
  }
  while (ms > 0) {
    const int64_t index = elapsed_ms_ / interval_ms_;
    const int64_t here = std::min(ms, (index + 1) * interval_ms_ - elapsed_ms_);
    Interval& interval = intervals_[static_cast<size_t>(index)];
    interval.used += static_cast<double>(used) * static_cast<double>(here);
    interval.stranded += free * static_cast<double>(here);
    interval.waiting += static_cast<double>(waiting) * static_cast<double>(here);
    elapsed_ms_ += here;
    ms -= here;
  }
}

void Meter::add_wait(int chips, bool urgent, int64_t wait_ms) {
  waits_[wait_class(chips, urgent)].push_back(wait_ms);
}

void Meter::report(int64_t total, Simulation& result) {
  const auto elapsed = static_cast<double>(elapsed_ms_);
  const double capacity = static_cast<double>(total) * elapsed;
  result.makespan_s = elapsed / 1000;
  result.lost_chip_hours = static_cast<double>(lost_) / 1000 / 3600e3;
  if (capacity > 0) {
    result.allocation = used_ / capacity;
    result.utilisation = (used_ - static_cast<double>(lost_)) / capacity;
    result.fragmentation = stranded_ / capacity;
  }
  if (busy_ms_ > 0) result.busy_allocation = busy_used_ / (busy_ms_ * static_cast<double>(total));
  std::vector<int64_t> all;
  for (size_t i = 0; i < waits_.size(); ++i) {
    all.insert(all.end(), waits_[i].begin(), waits_[i].end());
    if (!waits_[i].empty()) result.waits.push_back(wait_stats(kClasses[i], waits_[i]));
  }
  result.all = wait_stats("all", all);
  result.completion = wait_stats("completion", completions_);
  for (size_t i = 0; i < kIntervals; ++i) {
    const int64_t begin = static_cast<int64_t>(i) * interval_ms_;
    const auto length = static_cast<double>(std::min(interval_ms_, elapsed_ms_ - begin));
    if (length <= 0) break;
    const double of_all = 1 / (length * static_cast<double>(total));
    result.series.push_back({.time_s = (static_cast<double>(begin) + length / 2) / 1000,
                             .allocated = intervals_[i].used * of_all,
                             .stranded = intervals_[i].stranded * of_all,
                             .waiting = intervals_[i].waiting / length});
  }
}

}  // namespace stretto::cluster
