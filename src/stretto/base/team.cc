#include "stretto/base/team.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <system_error>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
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

// Spinning pays only while the other threads really run: on a busy machine the one waited for may
// need this very core. About as long as it takes to wake a sleeper, so that neither a wrong spin
// nor a wrong sleep costs more than twice the right one. To yield instead would be worse: a thread
// that yields to a busy neighbour gets its core back after a whole time slice, one that is woken at
// once.
constexpr auto kSpinTime = std::chrono::microseconds(30);
constexpr int kSpinsPerLook = 64;

#if defined(__linux__)
void sleep_while(const std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_all(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
#else
void sleep_while(std::atomic<uint32_t>& word, uint32_t value) { word.wait(value); }
void wake_all(std::atomic<uint32_t>& word) { word.notify_all(); }
#endif

// Threads of all teams that sleep in wait_while: while there are none, nobody needs to be woken. A
// forked child counts the sleepers of its parent too, and so wakes some that are not there.
std::atomic<int> g_sleepers{0};

// Either the sleeper is seen here, or it sees the new value before it sleeps: both accesses on both
// sides are in one order for all threads.
void set(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value, std::memory_order_seq_cst);
  if (g_sleepers.load(std::memory_order_seq_cst) > 0) wake_all(word);
}

// Returns when `word` is not `value` any more: spins, then sleeps.
void wait_while(std::atomic<uint32_t>& word, uint32_t value) {
  const auto changed = [&] { return word.load(std::memory_order_acquire) != value; };
  for (int spins = 0; spins < kSpinsPerLook; ++spins) {
    if (changed()) return;
    relax();
  }
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  while (std::chrono::steady_clock::now() < until) {
    for (int spins = 0; spins < kSpinsPerLook / 4; ++spins) {
      if (changed()) return;
      relax();
    }
  }
  g_sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == value) sleep_while(word, value);
  g_sleepers.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

void Barrier::wait() {
  const unsigned phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    set(phase_, phase + 1);
    return;
  }
  wait_while(phase_, phase);
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
      0};                                         // bumped to start a run; odd/even has no meaning
  alignas(64) std::atomic<int> running{0};        // workers that have not finished this run
  alignas(64) std::atomic<uint32_t> finished{0};  // runs, by all workers
  std::atomic<bool> stop{false};
  Body body = nullptr;
  void* context = nullptr;
  Barrier barrier;

  void end(std::vector<std::thread>& workers) {
    stop.store(true);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (std::thread& worker : workers) worker.join();
  }
};

ThreadTeam::ThreadTeam(int threads) : threads_(threads) {
  if (threads < 1 || threads > 1024) {
    throw_invalid("threads: expected 1 to 1024, got {}", threads);
  }
  start();
}

ThreadTeam::~ThreadTeam() {
  if (forks_ != forks()) abandon();
  if (workers_) state_->end(*workers_);
}

void ThreadTeam::start() {
  state_ = std::make_unique<State>(threads_);
  forks_ = forks();
  auto workers = std::make_unique<Workers>();
  workers->reserve(static_cast<size_t>(threads_) - 1);
  try {
    for (int i = 1; i < threads_; ++i) workers->emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const size_t started = workers->size() + 1;
    state_->end(*workers);
    throw_unsupported(
        "threads: the system starts {} of {} ({}); ask for fewer threads or raise the limit of "
        "processes (ulimit -u, or pids.max of the container)",
        started, threads_, error.code().message());
  }
  workers_ = std::move(workers);
}

// In a forked child. Its copies of the parent's std::threads can be neither joined, which would
// wait for ever, nor detached, because new threads may have their memory: they are leaked.
void ThreadTeam::abandon() { [[maybe_unused]] const Workers* leaked = workers_.release(); }

void ThreadTeam::run(Body body, void* context) {
  if (threads_ == 1) {
    body(context, Worker{});
    return;
  }
  if (forks_ != forks()) abandon();
  if (!workers_) start();
  State& s = *state_;
  const uint32_t finished = s.finished.load(std::memory_order_relaxed);
  s.body = body;
  s.context = context;
  s.running.store(threads_ - 1, std::memory_order_relaxed);
  s.generation.fetch_add(1, std::memory_order_release);
  s.generation.notify_all();
  body(context, Worker{0, threads_, &s.barrier});
  wait_while(s.finished, finished);
}

void ThreadTeam::work(int index) {
  State& s = *state_;
  uint32_t seen = 0;
  for (;;) {
    s.generation.wait(seen, std::memory_order_acquire);
    seen = s.generation.load(std::memory_order_acquire);
    if (s.stop.load()) return;
    s.body(s.context, Worker{index, threads_, &s.barrier});
    if (s.running.fetch_sub(1, std::memory_order_acq_rel) == 1)
      set(s.finished, s.finished.load(std::memory_order_relaxed) + 1);
  }
}

}  // namespace stretto
