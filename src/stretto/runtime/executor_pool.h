// The executors that concurrent callers of one program share.
//
// As many runs go on at once as their teams fit into the cores, and other callers wait. Where at
// least as many callers are inside as there are cores, more is done in the same time if no run
// waits for threads of its own: then each caller computes alone, in one of some more executors,
// which have no team. There are fewer of these, or none, where memory is short.
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

// Executors without a team to keep beside those: with them, two per core.
int alone_limit(int threads);

class ExecutorPool {
  struct Slot {
    std::atomic<bool> busy{false};
    std::unique_ptr<Executor> executor;  // touched only by the slot's holder
    bool has_team = true;
    int64_t bytes = 0;  // of the memory that executors without a team share
  };

 public:
  // Makes the first executor at once, so that the first run is a fast one too, and the others when
  // they are needed; at most `limit` in all, and `alone` that have no team. The program outlives
  // the pool. In a forked child all are free: whoever held one is not there.
  // Their activations come from `shelf`, which outlives the pool, or are their own.
  ExecutorPool(const Program& program, int limit, ArenaShelf* shelf = nullptr, int alone = 0);
  // With the limits above.
  explicit ExecutorPool(const Program& program, ArenaShelf* shelf = nullptr)
      : ExecutorPool(program, executor_limit(program.target.threads), shelf,
                     alone_limit(program.target.threads)) {}
  ~ExecutorPool();

  // A caller of any pool of this process, from before it waits until it is done.
  class Inside {
   public:
    Inside();
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    static bool crowded();

   private:
    const uint64_t forks_;
  };

  // An executor for one caller alone; back in the pool when the lease ends.
  class Lease {
   public:
    explicit Lease(ExecutorPool& pool) : pool_(pool), slot_(pool.acquire(inside_)) {}
    ~Lease() { pool_.release(slot_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // Makes it on first use: throws Unsupported when its threads cannot be started.
    Executor& executor();
    // executor().run(), or run_alone() where there are many callers.
    void run(std::span<const void* const> inputs, std::span<void* const> outputs);

   private:
    ExecutorPool& pool_;
    Inside inside_;
    Slot& slot_;
  };

 private:
  // Callers that wait for a slot.
  struct Queue {
    std::mutex mutex;
    std::condition_variable freed;
    std::atomic<int> waiting{0};
  };
  Slot& acquire(const Inside& inside);
  Slot* try_acquire();
  bool make_alone(Slot& slot);
  bool others_may_start() const;
  void release(Slot& slot);
  void follow_fork();

  const Program& program_;
  ArenaShelf* const shelf_;
  std::vector<Slot> slots_;  // those without a team come last
  std::unique_ptr<Queue> queue_ = std::make_unique<Queue>();
  // As forks() counted when slots and queue were last made free, and when somebody began to.
  std::atomic<uint64_t> forks_, freeing_;
};

}  // namespace stretto::runtime
