#include "stretto/base/team.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "stretto/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stretto {
namespace {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spinning pays only while the other threads really run; on an oversubscribed machine the thread
// waited for may need this very core. Longer than threads of a team are apart that all run, far
// shorter than a time slice.
constexpr auto kSpinTime = std::chrono::microseconds(10);
constexpr int kSpinsPerLook = 64;

// Returns when `done()`: spins, then yields.
template <class Done>
void wait_until(Done done) {
  for (int spins = 0; spins < kSpinsPerLook; ++spins) {
    if (done()) return;
    relax();
  }
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  while (std::chrono::steady_clock::now() < until) {
    for (int spins = 0; spins < kSpinsPerLook / 4; ++spins) {
      if (done()) return;
      relax();
    }
  }
  while (!done()) std::this_thread::yield();
}

}  // namespace

void Barrier::wait() {
  const unsigned phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  wait_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

Range split(int64_t total, const Worker& worker, int64_t grain) {
  const int64_t units = (total + grain - 1) / grain;
  const int64_t base = units / worker.count, extra = units % worker.count;
  const int64_t begin = worker.index * base + std::min<int64_t>(worker.index, extra);
  const int64_t end = begin + base + (worker.index < extra ? 1 : 0);
  return {std::min(begin * grain, total), std::min(end * grain, total)};
}

struct ThreadTeam::State {
  explicit State(int threads) : barrier(threads) {}

  alignas(64) std::atomic<uint32_t> generation{
      0};                                   // bumped to start a run; odd/even has no meaning
  alignas(64) std::atomic<int> running{0};  // workers that have not finished this run
  std::atomic<bool> stop{false};
  Body body = nullptr;
  void* context = nullptr;
  Barrier barrier;
};

ThreadTeam::ThreadTeam(int threads) : threads_(threads) {
  if (threads < 1 || threads > 1024) {
    throw_invalid("threads: expected 1 to 1024, got {}", threads);
  }
  state_ = std::make_unique<State>(threads);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadTeam::~ThreadTeam() {
  state_->stop.store(true);
  state_->generation.fetch_add(1, std::memory_order_release);
  state_->generation.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(Body body, void* context) {
  if (threads_ == 1) {
    body(context, Worker{});
    return;
  }
  State& s = *state_;
  s.body = body;
  s.context = context;
  s.running.store(threads_ - 1, std::memory_order_relaxed);
  s.generation.fetch_add(1, std::memory_order_release);
  s.generation.notify_all();
  body(context, Worker{0, threads_, &s.barrier});
  wait_until([&] { return s.running.load(std::memory_order_acquire) == 0; });
}

void ThreadTeam::work(int index) {
  State& s = *state_;
  uint32_t seen = 0;
  for (;;) {
    s.generation.wait(seen, std::memory_order_acquire);
    seen = s.generation.load(std::memory_order_acquire);
    if (s.stop.load()) return;
    s.body(s.context, Worker{index, threads_, &s.barrier});
    s.running.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace stretto
