// Reads of parts of files that are begun ahead and go past the system's page cache (O_DIRECT): what
// a cache of this process keeps need not be kept by the system too, and to copy it from there is
// most of what a read costs.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "stretto/data/ring.h"

namespace stretto::data {

// Another descriptor of an open file, past the page cache; -1 where its file system has no such
// way.
int open_direct(int fd);

// Safe for all threads.
class DirectReads {
 public:
  // Reads at a time, and bytes of each: larger ones keep a disk busy without others beside them.
  static constexpr uint32_t kPlaces = 128, kMostBytes = 256 << 10;

  // nullptr where there is no io_uring (ring.h), or no memory.
  static std::unique_ptr<DirectReads> make();
  ~DirectReads();  // waits for what is under way
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  // What is read.
  struct Part {
    uint64_t key = 0;    // two parts that are read at a time differ in it
    uint64_t state = 0;  // of the file
    uint64_t offset = 0, bytes = 0;
    bool operator==(const Part&) const = default;
  };
  // `direct` is of open_direct() and stays open as long as `keep` lives. Whether it is under way.
  // False: it is large, the system has it in memory, or too much is under way. What nobody takes is
  // forgotten kForgotten calls later.
  static constexpr uint64_t kForgotten = 8 * kPlaces;
  bool begin(const Part& part, int direct, std::shared_ptr<const void> keep);
  // Waits for a part that was begun, and writes it. False: it was not, or it failed, and is to be
  // read in another way, which says why.
  bool take(const Part& part, std::span<uint8_t> to);

  int64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  struct Place {
    bool used = false, under_way = false;
    bool awaited = false;  // by a take()
    Part part;
    uint64_t call = 0;  // of begin()
    int64_t result = 0;
    std::shared_ptr<const void> keep;
  };
  struct Memory;

  DirectReads(std::unique_ptr<Ring> ring, std::unique_ptr<Memory> memory);
  std::byte* memory(uint32_t place) const;
  bool find_place(uint32_t& place);
  void forget_old();
  void free_place(uint32_t place);
  bool note_ended();  // false: none has
  void wait(std::unique_lock<std::mutex>& lock);

  const std::unique_ptr<Ring> ring_;
  const std::unique_ptr<Memory> memory_;
  std::atomic<int64_t> taken_{0};
  std::mutex mutex_;  // of what follows, and of ring_->read() and ended()
  std::condition_variable ended_;
  bool waits_ = false;  // a thread in ring_->wait(): nobody else may call ended()
  uint64_t calls_ = 0;  // of begin()
  uint32_t under_way_ = 0;
  std::array<Place, kPlaces> places_;
  std::vector<uint32_t> free_;  // the one that was used last is used first: it is in memory
  std::unordered_map<uint64_t, uint32_t> by_key_;
};

}  // namespace stretto::data
