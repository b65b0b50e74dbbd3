// Work on many things by several threads whose results are taken in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "stretto/base/interrupt.h"
#include "stretto/base/parallel.h"

namespace stretto::data {

// `threads`, or one per core that this process may use where it is 0. Throws InvalidArgument if it
// is negative.
int threads_or_cores(int threads);

// Calls make(i) for begin <= i < end on several threads, and take(i, result) in the order of i, by
// one thread at a time. At most a few results per thread wait. Rethrows the first exception of
// either, and an interrupt of the calling thread, once the calls that run have returned; what was
// taken until then is all before it.
template <typename T, typename Make, typename Take>
void in_order(int64_t begin, int64_t end, int threads, const Make& make, const Take& take) {
  constexpr int64_t kWaiting = 4;  // results per thread
  threads = threads_or_cores(threads);
  std::mutex lock;
  std::condition_variable room;
  std::map<int64_t, T> ready;
  int64_t next = begin, taken = begin;
  bool taking = false, failed = false;

  // With the lock held.
  const auto take_ready = [&](std::unique_lock<std::mutex>& held) {
    if (taking) return;
    taking = true;
    while (!failed && !ready.empty() && ready.begin()->first == taken) {
      auto node = ready.extract(ready.begin());
      held.unlock();
      take(node.key(), std::move(node.mapped()));
      held.lock();
      ++taken;
      room.notify_all();
    }
    taking = false;
  };
  const auto may_go = [&] {
    return failed || taken == end || (next < end && next < taken + kWaiting * threads);
  };
  run_parallel(threads, [&] {
    try {
      for (;;) {
        std::unique_lock held(lock);
        // With pauses, for the calling thread to see that it is interrupted.
        while (!room.wait_for(held, std::chrono::milliseconds(50), may_go)) check_interrupt();
        if (failed || taken == end) return;
        const int64_t index = next++;
        held.unlock();
        check_interrupt();
        T result = make(index);
        held.lock();
        ready.emplace(index, std::move(result));
        take_ready(held);
      }
    } catch (...) {
      const std::lock_guard held(lock);
      failed = true;
      room.notify_all();
      throw;
    }
  });
}

}  // namespace stretto::data
