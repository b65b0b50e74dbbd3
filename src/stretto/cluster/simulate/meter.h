// What a simulation measures while time passes, and what it reports at the end.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/cluster/simulate.h"

namespace stretto::cluster {

constexpr size_t kWaitClasses = 6;
size_t wait_class(int chips, bool urgent);

class Meter {
 public:
  // Nothing changed for so long. `used`: thousandths of chips in use.
  void pass_time(int64_t ms, int64_t used, int64_t total, int64_t waiting);

  void add_wait(int chips, bool urgent, int64_t wait_ms);
  void add_completion(int64_t ms) { completions_.push_back(ms); }
  void add_loss(int64_t milli_ms) { lost_ += milli_ms; }

  void report(int64_t total, Simulation& result);

 private:
  static constexpr size_t kIntervals = 256;
  struct Interval {
    double used = 0, stranded = 0, waiting = 0;  // times milliseconds
  };

  std::vector<std::vector<int64_t>> waits_ = std::vector<std::vector<int64_t>>(kWaitClasses);
  std::vector<int64_t> completions_;
  // The past in equal intervals. When they are full, two become one.
  std::vector<Interval> intervals_ = std::vector<Interval>(kIntervals);
  int64_t interval_ms_ = 1000, elapsed_ms_ = 0;
  double used_ = 0, stranded_ = 0, busy_ms_ = 0, busy_used_ = 0;
  int64_t lost_ = 0;
};

// Reorders the values.
WaitStats wait_stats(std::string name, std::vector<int64_t>& values_ms);

}  // namespace stretto::cluster
