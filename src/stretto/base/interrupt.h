// Lets a caller end long work early, however deep in the library it is.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <string>

namespace stretto {

// While it lives, check_interrupt() on this thread calls `check`, at most every `interval_s`, and
// not before that has passed once. What `check` throws ends the work: once it has thrown, every
// later call throws the same. An inner scope hides an outer one; one with an empty function leaves
// the outer one in force.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> check, double interval_s = 0.05);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Throws again what `check` has thrown, for whoever catches an error that an interrupt may have
  // become; returns when it has thrown nothing.
  void rethrow() const;

 private:
  friend void check_interrupt();
  std::function<void()> check_;
  InterruptScope* outer_;
  const double interval_s_;
  double next_s_;  // when to call `check` again
  std::exception_ptr thrown_;
};

// To be called at least every 0.1 s by work that can take longer than that. Costs a few nanoseconds
// where there is no scope.
void check_interrupt();

// Work on memory or a file that calls check_interrupt() between pieces of this size is fast enough:
// even a slow disk writes one in less than 0.1 s.
constexpr size_t kInterruptiblePiece = size_t{4} << 20;

}  // namespace stretto
