// The reports of NaN and infinity that nobody has taken yet, and how errors name such values.
//
// Not thread-safe: the caller holds the engine's lock, which only wait() releases.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/comm/engine/engine.h"
#include "stretto/comm/engine/state.h"

namespace stretto::comm {

class NonFiniteReports {
 public:
  explicit NonFiniteReports(int rank) : rank_(rank) {}

  // Keeps a report as one of this rank. After Engine::kMostReports, which perhaps nobody ever
  // takes, further ones are only counted.
  void add(NonFiniteReport&& found);
  // The same for what was found in an operation, or in each of its pieces.
  void add(const OpenOperation& open);

  std::vector<NonFiniteReport> take() { return std::exchange(reports_, {}); }

  // Waits until there are any, for timeout_s seconds at most, or until interrupt() or close().
  void wait(std::unique_lock<std::mutex>& lock, double timeout_s);
  // One call of wait(), that under way or the next, does not wait.
  void interrupt();
  // No call waits any more.
  void close();
  // In a forked child, whose copies of sleeping threads do not exist.
  void forget_sleepers();

  // Why the job ends where Options::nan_check is kStop.
  std::string reason(std::string_view what, int64_t count, int64_t first) const;
  std::string reason(const OpenOperation& open) const;  // the first of its pieces that has any

 private:
  const int rank_;
  std::vector<NonFiniteReport> reports_;
  bool interrupted_ = false, closed_ = false;
  std::condition_variable wake_;
};

}  // namespace stretto::comm
