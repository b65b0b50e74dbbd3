// Threads that wait for the engine's lock. A thread that polls holds it nearly always, and takes it
// again before another one that was woken has begun to run. So it looks here: while somebody waits
// it reads once from each stream, and lets them in before it goes on.
#pragma once

#include <atomic>
#include <mutex>

namespace stretto::comm {

class Callers {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // Takes the lock for a caller.
  Lock lock(std::mutex& mutex) {
    Lock lock(mutex, std::try_to_lock);
    if (lock) return lock;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    waiting_.notify_all();
    return lock;
  }

  bool wait() const { return waiting_.load(std::memory_order_relaxed) > 0; }

  // Releases the lock until one of those that wait has had it.
  void let_in(Lock& lock) const {
    const int waiting = waiting_.load(std::memory_order_relaxed);
    if (waiting == 0) return;
    lock.unlock();
    waiting_.wait(waiting, std::memory_order_relaxed);
    lock.lock();
  }

 private:
  std::atomic<int> waiting_ = 0;
};

}  // namespace stretto::comm
