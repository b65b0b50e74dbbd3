#include "stretto/runtime/arena_shelf.h"

#include <algorithm>
#include <new>
#include <utility>

namespace stretto::runtime {

ArenaShelf::Arena ArenaShelf::take(int64_t bytes) {
  Arena arena;
  int64_t least = 0;
  {
    const std::lock_guard lock(mutex_);
    least = least_bytes_ = std::max(least_bytes_, bytes);
    if (!free_.empty()) {
      arena = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (arena.bytes < bytes || !arena.memory) {
    arena.memory.reset();  // before the larger one is made
    arena = {allocate(static_cast<size_t>(least)), least};
  }
  return arena;
}

int64_t ArenaShelf::least_bytes() {
  const std::lock_guard lock(mutex_);
  return least_bytes_;
}

void ArenaShelf::put(Arena arena) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(arena));
  } catch (const std::bad_alloc&) {  // then it is gone, and the next one is made anew
  }
}

}  // namespace stretto::runtime
