// The waiting jobs of one shape in the order of the policy. Finding the first one, or the first one
// that is short enough, takes a time that grows with the logarithm of their number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace stretto::cluster {

class Waiting {
 public:
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

  // `jobs`: all that will ever wait here, in order.
  void set_jobs(std::vector<int> jobs) {
    jobs_ = std::move(jobs);
    leaves_ = 1;
    while (leaves_ < jobs_.size()) leaves_ *= 2;
    least_.assign(2 * leaves_, kAny);
  }

  bool empty() const { return least_[1] == kAny; }
  size_t count() const { return count_; }

  // `position`: of the job in the list of set_jobs().
  void add(size_t position, int64_t predicted_ms) {
    set(position, predicted_ms);
    ++count_;
  }
  void remove(size_t position) {
    set(position, kAny);
    --count_;
  }

  // The first job whose predicted time is at most `longest`; -1: there is none.
  int first(int64_t longest) const {
    const int64_t bound = std::min(longest, kAny - 1);
    if (least_[1] > bound) return -1;
    size_t at = 1;
    while (at < leaves_) at = least_[2 * at] <= bound ? 2 * at : 2 * at + 1;
    return jobs_[at - leaves_];
  }

 private:
  void set(size_t position, int64_t value) {
    size_t at = leaves_ + position;
    least_[at] = value;
    for (at /= 2; at > 0; at /= 2) {
      const int64_t least = std::min(least_[2 * at], least_[2 * at + 1]);
      if (least_[at] == least) return;
      least_[at] = least;
    }
  }

  std::vector<int> jobs_;
  std::vector<int64_t> least_;  // a heap of the least predicted times below each place
  size_t leaves_ = 1, count_ = 0;
};

}  // namespace stretto::cluster
