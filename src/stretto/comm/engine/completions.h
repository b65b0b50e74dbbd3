// Operations that are over and that Engine::next_completions() reports, in the order in which they
// ended, and the threads that wait for them.
//
// The caller holds the engine's lock, which only take() releases.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>

#include "stretto/comm/engine/operation_table.h"

namespace stretto::comm {

class Completions {
 public:
  void add(OperationTable::Shared open);

  // Waits until there are any, for timeout_s seconds at most, or until interrupt() or close().
  // Writes them to `out`, removes them from `operations` and returns their number.
  size_t take(std::unique_lock<std::mutex>& lock, std::span<Completion> out, double timeout_s,
              OperationTable* operations);

  // One call of take(), that under way or the next, does not wait.
  void interrupt();
  // No call waits any more.
  void close();

  // In a forked child, whose copies of sleeping threads do not exist.
  void forget_sleepers();

 private:
  std::deque<OperationTable::Shared> over_;
  bool interrupted_ = false, closed_ = false;
  std::condition_variable wake_;
};

}  // namespace stretto::comm
