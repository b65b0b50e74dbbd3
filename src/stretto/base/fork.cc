#include "stretto/base/fork.h"

#include <pthread.h>

#include <atomic>

namespace stretto {
namespace {

std::atomic<uint64_t> fork_count;

void in_child() { fork_count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint64_t forks() {
  [[maybe_unused]] static const int kRegistered = pthread_atfork(nullptr, nullptr, in_child);
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace stretto
