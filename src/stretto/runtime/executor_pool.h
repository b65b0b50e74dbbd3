// The executors that concurrent callers of one program share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "stretto/runtime/executor.h"

namespace stretto::runtime {

// Executors to keep so that all their threads together are no more than this machine has usable
// cores: at least one.
int executor_limit(int threads);

class ExecutorPool {
  struct Slot {
    std::atomic<bool> busy{false};
    std::unique_ptr<Executor> executor;  // touched only by the slot's holder
  };

 public:
  // Makes the first executor at once, so that the first run is a fast one too, and the others when
  // they are needed; at most `limit` in all. The program outlives the pool. In a forked child all
  // are free: whoever held one is not there.
  // Their activations come from `shelf`, which outlives the pool, or are their own.
  ExecutorPool(const Program& program, int limit, ArenaShelf* shelf = nullptr);

  // An executor for one caller alone; back in the pool when the lease ends.
  class Lease {
   public:
    explicit Lease(ExecutorPool& pool) : pool_(pool), slot_(pool.acquire()) {}
    ~Lease() { pool_.release(slot_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // Makes it on first use: throws Unsupported when its threads cannot be started.
    Executor& executor();

   private:
    ExecutorPool& pool_;
    Slot& slot_;
  };

 private:
  // Callers that wait for a slot.
  struct Queue {
    std::mutex mutex;
    std::condition_variable freed;
    std::atomic<int> waiting{0};
  };
  Slot& acquire();
  Slot* try_acquire();
  void release(Slot& slot);
  void follow_fork();

  const Program& program_;
  ArenaShelf* const shelf_;
  std::vector<Slot> slots_;
  std::unique_ptr<Queue> queue_ = std::make_unique<Queue>();
  // As forks() counted when slots and queue were last made free, and when somebody began to.
  std::atomic<uint64_t> forks_, freeing_;
};

}  // namespace stretto::runtime
