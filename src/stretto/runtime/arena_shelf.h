// Memory for activations that executors take turns with: those of a model with many programs, of
// which few run at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto::runtime {

class ArenaShelf {
 public:
  struct Arena {
    std::shared_ptr<std::byte[]> memory;
    int64_t bytes = 0;
  };

  // New arenas have at least so many bytes, and as many as anybody has asked for.
  explicit ArenaShelf(int64_t least_bytes) : least_bytes_(least_bytes) {}

  // What a new one has at least.
  int64_t least_bytes();

  // One of at least so many bytes for the caller alone. Prefers the one that was put back last.
  Arena take(int64_t bytes);
  void put(Arena arena) noexcept;

 private:
  std::mutex mutex_;
  int64_t least_bytes_;
  std::vector<Arena> free_;
};

}  // namespace stretto::runtime
