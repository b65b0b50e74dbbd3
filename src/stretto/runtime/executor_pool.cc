#include "stretto/runtime/executor_pool.h"

#include <algorithm>
#include <thread>

#include "stretto/base/cpu.h"
#include "stretto/base/fork.h"

namespace stretto::runtime {

int executor_limit(int threads) { return std::max(1, cpu_info().cores / threads); }

ExecutorPool::ExecutorPool(const Program& program, int limit, ArenaShelf* shelf)
    : program_(program),
      shelf_(shelf),
      slots_(static_cast<size_t>(limit)),
      forks_(forks()),
      freeing_(forks_.load()) {
  slots_[0].executor = std::make_unique<Executor>(program, shelf);
}

Executor& ExecutorPool::Lease::executor() {
  if (!slot_.executor) slot_.executor = std::make_unique<Executor>(pool_.program_, pool_.shelf_);
  return *slot_.executor;
}

// The first free slot, so that a single caller always meets the same warm executor.
ExecutorPool::Slot* ExecutorPool::try_acquire() {
  for (Slot& slot : slots_) {
    if (!slot.busy.exchange(true)) return &slot;
  }
  return nullptr;
}

// The threads that held slots, or the lock, when a parent process forked are not here. The first
// caller in the child frees all of them, and others wait for it.
void ExecutorPool::follow_fork() {
  const uint64_t now = forks();
  if (forks_.load() == now) return;
  uint64_t claimed = freeing_.load();
  if (claimed != now && freeing_.compare_exchange_strong(claimed, now)) {
    for (Slot& slot : slots_) slot.busy.store(false);
    // A lock that is locked cannot be destroyed, so the old queue is leaked.
    [[maybe_unused]] const Queue* leaked = queue_.release();
    queue_ = std::make_unique<Queue>();
    forks_.store(now);
    return;
  }
  while (forks_.load() != now) std::this_thread::yield();
}

ExecutorPool::Slot& ExecutorPool::acquire() {
  follow_fork();
  if (Slot* slot = try_acquire()) return *slot;
  std::unique_lock lock(queue_->mutex);
  // Either the holder sees this in release(), or the slot it set free is seen below: both sides
  // write first and read then, in one order for all threads.
  ++queue_->waiting;
  Slot* slot = nullptr;
  queue_->freed.wait(lock, [&] { return (slot = try_acquire()) != nullptr; });
  --queue_->waiting;
  return *slot;
}

void ExecutorPool::release(Slot& slot) {
  slot.busy.store(false);
  if (queue_->waiting.load() == 0) return;
  const std::lock_guard lock(queue_->mutex);
  queue_->freed.notify_one();
}

}  // namespace stretto::runtime
