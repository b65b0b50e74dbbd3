// Where compiled operators run: memory and threads that all of them share, one call at a time.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "stretto/runtime/direct/prepared.h"

namespace stretto::runtime::direct {

class Lane {
 public:
  // Throws Unsupported when a thread cannot be started.
  explicit Lane(int threads) : team_(threads) {}

  // `inputs`: one address per argument of the call, null where it has none; `outputs`: one per
  // output. Dense row-major memory. Inputs that are not aligned to their elements, outputs and
  // weights that are not aligned to kAlignment, and what is both input and output go through a
  // copy. The program is for one thread or for as many as the lane has. Allocates only for a larger
  // program than any before, and where a node is interpreted.
  void run(const Prepared& prepared, std::span<const void* const> inputs,
           std::span<void* const> outputs);

 private:
  void place(const Prepared& prepared, std::span<const void* const> inputs,
             std::span<void* const> outputs);
  void reserve(int64_t bytes);
  void resolve(const Prepared& prepared);
  void pack(const Prepared& prepared);
  void execute(const Prepared& prepared, size_t instruction, const Worker& worker);
  void execute_all(const Prepared& prepared);
  const std::byte* packed(const Prepared& prepared, size_t instruction) const;

  ThreadTeam team_;
  std::shared_ptr<std::byte[]> memory_;
  int64_t memory_bytes_ = 0;
  // Of the current call: addresses that kernels use, per argument and per output.
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<const void*> slots_;  // operands, instruction after instruction
  std::vector<size_t> first_;       // of each instruction, into slots_
};

// Lanes of equal size, made when they are needed, at most `limit`.
class LanePool {
 public:
  LanePool(int threads, int limit) : threads_(threads), limit_(limit) {}

  class Lease {
   public:
    explicit Lease(LanePool& pool) : pool_(pool), lane_(pool.acquire()) {}
    ~Lease() { pool_.release(std::move(lane_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lane& operator*() const { return *lane_; }

   private:
    LanePool& pool_;
    std::unique_ptr<Lane> lane_;
  };

  void clear();  // frees what nobody uses

 private:
  std::unique_ptr<Lane> acquire();
  void release(std::unique_ptr<Lane> lane);

  const int threads_, limit_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Lane>> free_;  // the one used last is the last: its memory is warm
  int made_ = 0;
};

}  // namespace stretto::runtime::direct
