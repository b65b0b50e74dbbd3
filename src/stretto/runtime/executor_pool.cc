#include "stretto/runtime/executor_pool.h"

#include <algorithm>
#include <new>
#include <thread>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/memory.h"

namespace stretto::runtime {

namespace {

// Callers that are Inside: how many, in the lower half, below the number of forks() at which they
// were counted. Those of a parent process are not here.
std::atomic<uint64_t> g_inside{0};
constexpr uint64_t kCount = (uint64_t{1} << 32) - 1;

// What all executors without a team may have, and what they have.
constexpr int64_t kMemoryParts = 8;
std::atomic<int64_t> g_alone_bytes{0};

uint64_t fork_bits() { return forks() << 32; }

// A core has another run to go on with while the caller of the one that has ended makes room for
// the next, which takes threads of Python long: with one run per core, 8 of them on two cores did
// 167 instead of 220 runs of MobileNet-v2 per second.
constexpr int kRunsPerCore = 2;

}  // namespace

int executor_limit(int threads) { return std::max(1, cpu_info().cores / threads); }

int alone_limit(int threads) { return kRunsPerCore * cpu_info().cores - executor_limit(threads); }

ExecutorPool::Inside::Inside() : forks_(fork_bits()) {
  uint64_t seen = g_inside.load();
  while (!g_inside.compare_exchange_weak(
      seen, forks_ + ((seen & ~kCount) == forks_ ? (seen & kCount) + 1 : 1))) {
  }
}

ExecutorPool::Inside::~Inside() {
  uint64_t seen = g_inside.load();
  while ((seen & ~kCount) == forks_ && !g_inside.compare_exchange_weak(seen, seen - 1)) {
  }
}

bool ExecutorPool::Inside::crowded() {
  const uint64_t count = g_inside.load() & kCount;
  return count > 1 && count >= static_cast<uint64_t>(cpu_info().cores);
}

ExecutorPool::ExecutorPool(const Program& program, int limit, ArenaShelf* shelf, int alone)
    : program_(program),
      shelf_(shelf),
      slots_(static_cast<size_t>(limit + alone)),
      forks_(forks()),
      freeing_(forks_.load()) {
  for (auto i = static_cast<size_t>(limit); i < slots_.size(); ++i) slots_[i].has_team = false;
  slots_[0].executor = std::make_unique<Executor>(program, shelf);
}

ExecutorPool::~ExecutorPool() {
  for (const Slot& slot : slots_) g_alone_bytes -= slot.bytes;
}

Executor& ExecutorPool::Lease::executor() {
  if (!slot_.executor) {
    slot_.executor = std::make_unique<Executor>(pool_.program_, pool_.shelf_);
  }
  return *slot_.executor;
}

void ExecutorPool::Lease::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  Inside::crowded() ? executor().run_alone(inputs, outputs) : executor().run(inputs, outputs);
}

// The first free slot, so that a single caller always meets the same warm executor.
ExecutorPool::Slot* ExecutorPool::try_acquire() {
  const bool crowded = Inside::crowded();
  for (Slot& slot : slots_) {
    if (!slot.has_team && !crowded) break;
    if (slot.busy.exchange(true)) continue;
    if (slot.has_team || slot.executor || make_alone(slot)) return &slot;
    slot.busy.store(false);
    break;
  }
  return nullptr;
}

// False where memory does not suffice: those with a team are there to wait for.
bool ExecutorPool::make_alone(Slot& slot) {
  const int64_t bytes = std::max(executor_bytes(program_), shelf_ ? shelf_->least_bytes() : 0);
  if (g_alone_bytes.fetch_add(bytes) + bytes <= total_memory_bytes() / kMemoryParts) {
    try {
      slot.executor = std::make_unique<Executor>(program_, shelf_, false);
      slot.bytes = bytes;
      return true;
    } catch (const Unsupported&) {  // the ledger of memory
    } catch (const std::bad_alloc&) {
    }
  }
  g_alone_bytes -= bytes;
  return false;
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

// `inside`: this caller is counted.
ExecutorPool::Slot& ExecutorPool::acquire(const Inside&) {
  follow_fork();
  if (Slot* slot = try_acquire()) {
    if (others_may_start()) {
      const std::lock_guard lock(queue_->mutex);
      queue_->freed.notify_one();
    }
    return *slot;
  }
  std::unique_lock lock(queue_->mutex);
  // Either the holder sees this in release(), or the slot it set free is seen below: both sides
  // write first and read then, in one order for all threads.
  ++queue_->waiting;
  Slot* slot = nullptr;
  queue_->freed.wait(lock, [&] { return (slot = try_acquire()) != nullptr; });
  --queue_->waiting;
  if (others_may_start()) queue_->freed.notify_one();
  return *slot;
}

// Whether callers wait beside free executors. They began to when there were fewer of them, and
// nobody but the one who makes it a crowd can tell them; each one who wakes up tells the next.
bool ExecutorPool::others_may_start() const {
  if (queue_->waiting.load() == 0 || !Inside::crowded()) return false;
  return std::ranges::any_of(slots_, [](const Slot& slot) { return !slot.busy.load(); });
}

void ExecutorPool::release(Slot& slot) {
  slot.busy.store(false);
  if (queue_->waiting.load() == 0) return;
  const std::lock_guard lock(queue_->mutex);
  queue_->freed.notify_one();
}

}  // namespace stretto::runtime
