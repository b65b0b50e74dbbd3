// A cache that is filled once: what was put in stays until the end, and when the memory is used up
// nothing more goes in. An epoch needs every sample exactly once, so whatever is put out for
// another would be missed before it is used again (Mohan et al., "Analyzing and mitigating data
// stalls in DNN training", doi:10.14778/3446095.3446100, section 4.1).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace stretto::data {

// Entries of bytes, numbered. Safe for all threads; find() takes no lock.
class FillOnce {
 public:
  // Never takes more than `budget` bytes, its own tables included, all of which stand in the ledger
  // of base/memory.h.
  FillOnce(int64_t entries, int64_t budget);
  ~FillOnce();
  FillOnce(const FillOnce&) = delete;
  FillOnce& operator=(const FillOnce&) = delete;

  // What publish() was given; nullptr if nothing.
  const std::byte* find(int64_t entry) const;
  // Memory for an entry, aligned to 64 bytes, to be filled and published; nullptr if another thread
  // is at it or there is no room.
  std::byte* claim(int64_t entry, size_t bytes);
  void publish(int64_t entry, const std::byte* data);

  // So many entries in a row found no room that no more are taken.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  int64_t bytes() const { return taken_.load(std::memory_order_relaxed); }  // in the ledger
  int64_t used() const { return used_.load(std::memory_order_relaxed); }    // by entries and tables
  int64_t published() const { return published_.load(std::memory_order_relaxed); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::byte* allocate(size_t bytes);
  std::byte* take_chunk(size_t bytes);  // nullptr if there is no room
  bool take(int64_t bytes);

  const int64_t entries_, budget_;
  std::unique_ptr<std::atomic<const std::byte*>[]> table_;
  std::atomic<bool> full_{false};
  std::atomic<int64_t> taken_{0}, used_{0}, published_{0};
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<std::byte, Free>> chunks_;
  std::byte* free_ = nullptr;
  size_t free_bytes_ = 0;
  int refused_ = 0;  // since the last entry that found room
};

}  // namespace stretto::data
