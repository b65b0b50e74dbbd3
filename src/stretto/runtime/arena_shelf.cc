#include "stretto/runtime/arena_shelf.h"

#include <algorithm>

namespace stretto::runtime {

ArenaShelf::Arena ArenaShelf::take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  least_bytes_ = std::max(least_bytes_, bytes);
  Arena arena;
  if (!free_.empty()) {
    arena = std::move(free_.back());
    free_.pop_back();
  }
  if (arena.bytes < bytes || !arena.memory) {
    arena.memory.reset();  // before the larger one is made
    arena = {allocate(static_cast<size_t>(least_bytes_)), least_bytes_};
  }
  return arena;
}

void ArenaShelf::put(Arena arena) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(arena));
}

}  // namespace stretto::runtime
