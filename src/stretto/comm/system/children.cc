#include "stretto/comm/system/children.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace stretto::comm {
namespace {

// A bit for every descriptor that default limits allow; higher ones stay open. These are plain bits
// because a child of a process with threads can use neither locks nor allocation.
constexpr int kDescriptors = 1 << 20;
constexpr int kWordBits = 64;
std::array<std::atomic<uint64_t>, kDescriptors / kWordBits> marked;

void in_child() {
  for (size_t word = 0; word < marked.size(); ++word) {
    for (uint64_t bits = marked[word].exchange(0); bits != 0; bits &= bits - 1)
      close(static_cast<int>(word) * kWordBits + std::countr_zero(bits));
  }
}

void follow_forks() {
  [[maybe_unused]] static const int kRegistered = pthread_atfork(nullptr, nullptr, in_child);
}

}  // namespace

void close_in_children(int descriptor) {
  follow_forks();
  if (descriptor < 0 || descriptor >= kDescriptors) return;
  marked[descriptor / kWordBits].fetch_or(uint64_t{1} << (descriptor % kWordBits));
}

void keep_in_children(int descriptor) {
  if (descriptor < 0 || descriptor >= kDescriptors) return;
  std::atomic<uint64_t>& word = marked[descriptor / kWordBits];
  const uint64_t bit = uint64_t{1} << (descriptor % kWordBits);
  if (word.load(std::memory_order_relaxed) & bit) word.fetch_and(~bit);
}

}  // namespace stretto::comm
