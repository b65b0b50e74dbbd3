#include "stretto/base/wait.h"

#include <climits>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

namespace stretto {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpinsPerLook = 64;

#if defined(__linux__)
void sleep(const std::atomic<uint32_t>& word, uint32_t value,
           const std::chrono::microseconds* most) {
  timespec limit{};
  if (most) {
    limit.tv_sec = most->count() / 1'000'000;
    limit.tv_nsec = most->count() % 1'000'000 * 1000;
  }
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, most ? &limit : nullptr, nullptr, 0);
}
void wake_all(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
#else
void sleep(std::atomic<uint32_t>& word, uint32_t value, const std::chrono::microseconds* most) {
  if (most) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } else {
    word.wait(value);
  }
}
void wake_all(std::atomic<uint32_t>& word) { word.notify_all(); }
#endif

// Threads of the process that sleep here: while there are none, nobody needs to be woken. A forked
// child counts the sleepers of its parent too, and so wakes some that are not there.
std::atomic<int> g_sleepers{0};

}  // namespace

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Either the sleeper is seen here, or it sees the new value before it sleeps: both accesses on both
// sides are in one order for all threads.
void set_and_wake(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value, std::memory_order_seq_cst);
  if (g_sleepers.load(std::memory_order_seq_cst) > 0) wake_all(word);
}

void raise_and_wake(std::atomic<uint32_t>& word, uint32_t value) {
  uint32_t seen = word.load(std::memory_order_relaxed);
  do {
    if (static_cast<int32_t>(value - seen) <= 0) return;  // whoever raised it has woken them
  } while (!word.compare_exchange_weak(seen, value, std::memory_order_seq_cst));
  if (g_sleepers.load(std::memory_order_seq_cst) > 0) wake_all(word);
}

bool spin_while(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::microseconds most) {
  const auto changed = [&] { return word.load(std::memory_order_acquire) != value; };
  for (int spins = 0; spins < kSpinsPerLook; ++spins) {
    if (changed()) return true;
    relax();
  }
  const auto until = Clock::now() + most;
  while (Clock::now() < until) {
    for (int spins = 0; spins < kSpinsPerLook / 4; ++spins) {
      if (changed()) return true;
      relax();
    }
  }
  return changed();
}

void wait_while(std::atomic<uint32_t>& word, uint32_t value) {
  if (spin_while(word, value)) return;
  g_sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == value) sleep(word, value, nullptr);
  g_sleepers.fetch_sub(1, std::memory_order_relaxed);
}

bool sleep_while(std::atomic<uint32_t>& word, uint32_t value, std::chrono::microseconds most) {
  g_sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (word.load(std::memory_order_seq_cst) == value) sleep(word, value, &most);
  g_sleepers.fetch_sub(1, std::memory_order_relaxed);
  return word.load(std::memory_order_acquire) != value;
}

}  // namespace stretto
