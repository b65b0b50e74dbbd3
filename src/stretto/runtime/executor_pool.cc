#include "stretto/runtime/executor_pool.h"

#include <algorithm>

#include "stretto/base/cpu.h"

namespace stretto::runtime {

int executor_limit(int threads) { return std::max(1, cpu_info().cores / threads); }

ExecutorPool::ExecutorPool(const Program& program, int limit)
    : program_(program), slots_(static_cast<size_t>(limit)) {
  slots_[0].executor = std::make_unique<Executor>(program);
}

Executor& ExecutorPool::Lease::executor() {
  if (!slot_.executor) slot_.executor = std::make_unique<Executor>(pool_.program_);
  return *slot_.executor;
}

// The first free slot, so that a single caller always meets the same warm executor.
ExecutorPool::Slot* ExecutorPool::try_acquire() {
  for (Slot& slot : slots_) {
    if (!slot.busy.exchange(true)) return &slot;
  }
  return nullptr;
}

ExecutorPool::Slot& ExecutorPool::acquire() {
  if (Slot* slot = try_acquire()) return *slot;
  std::unique_lock lock(mutex_);
  // Either the holder sees this in release(), or the slot it set free is seen below: both sides
  // write first and read then, in one order for all threads.
  ++waiting_;
  Slot* slot = nullptr;
  freed_.wait(lock, [&] { return (slot = try_acquire()) != nullptr; });
  --waiting_;
  return *slot;
}

void ExecutorPool::release(Slot& slot) {
  slot.busy.store(false);
  if (waiting_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  freed_.notify_one();
}

}  // namespace stretto::runtime
