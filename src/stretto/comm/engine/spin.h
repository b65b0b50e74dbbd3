// When a caller that waits for an operation stops to spin, and sleeps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stretto/comm/engine/operation.h"

namespace stretto::comm {

// Waking up takes longer than a small operation: a caller spins for Options::spin_s once. It is a
// good part of the pauses in an operation of middle size: there, a caller with a core of its own
// spins after each arrival, for kSpins times as long in all. In larger ones it does not count.
class Spin {
 public:
  static constexpr int64_t kMostBytes = 2 << 20;
  static constexpr int kSpins = 5;

  // `core_each`: every rank of this host has a core.
  Spin(double now_s, double spin_s, int64_t bytes, bool core_each) : spin_s_(spin_s) {
    const int spins = bytes <= kSmallBytes ? 1 : core_each && bytes <= kMostBytes ? kSpins : 0;
    end_s_ = now_s + spins * spin_s;
    on_arrival(now_s);
  }
  bool over(double now_s) const { return now_s >= pause_end_s_; }
  void on_arrival(double now_s) { pause_end_s_ = std::min(now_s + spin_s_, end_s_); }

 private:
  double spin_s_, end_s_, pause_end_s_;
};

}  // namespace stretto::comm
