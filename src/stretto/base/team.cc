#include "stretto/base/team.h"

#include <algorithm>
#include <cstdint>
#include <system_error>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/wait.h"

namespace stretto {
void Barrier::wait() {
  const unsigned phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    set_and_wake(phase_, phase + 1);
    return;
  }
  wait_while(phase_, phase);
}

Range split(int64_t total, const Worker& worker, int64_t grain) {
  const Range share = part_of({0, total}, worker.index, worker.count, grain);
  return worker.units == 1 ? share : part_of(share, worker.unit, worker.units, grain);
}

Range part_of(Range range, int64_t index, int64_t count, int64_t grain) {
  const int64_t grains = (range.end - range.begin + grain - 1) / grain;
  const int64_t base = grains / count, extra = grains % count;
  const int64_t begin = index * base + std::min(index, extra);
  const int64_t end = begin + base + (index < extra ? 1 : 0);
  return {std::min(range.begin + begin * grain, range.end),
          std::min(range.begin + end * grain, range.end)};
}

struct ThreadTeam::State {
  explicit State(int threads) : barrier(threads) {}

  // Raised to start something: to an even number a run, to an odd one what invite() passes on.
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<int> running{0};        // workers that have not finished this run
  alignas(64) std::atomic<uint32_t> finished{0};  // runs, by all workers
  std::atomic<bool> stop{false};
  Body body = nullptr;
  void* context = nullptr;
  Body guest = nullptr;  // of invite(): written once, because workers may read it late
  void* guest_context = nullptr;
  Barrier barrier;

  // To the next number that is even or odd, as `odd` says.
  void raise(uint32_t odd) {
    const uint32_t last = generation.load(std::memory_order_relaxed);
    generation.store(last + ((last + 1) % 2 == odd ? 1 : 2), std::memory_order_release);
    generation.notify_all();
  }

  void end(std::vector<std::thread>& workers) {
    stop.store(true);
    raise(0);
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

void ThreadTeam::wake_up() {
  if (forks_ != forks()) abandon();
  if (!workers_) start();
}

void ThreadTeam::run(Body body, void* context) {
  if (threads_ == 1) {
    body(context, Worker{});
    return;
  }
  wake_up();
  State& s = *state_;
  const uint32_t finished = s.finished.load(std::memory_order_relaxed);
  s.body = body;
  s.context = context;
  s.running.store(threads_ - 1, std::memory_order_relaxed);
  s.raise(0);
  body(context, Worker{.index = 0, .count = threads_, .barrier = &s.barrier, .thread = 0});
  wait_while(s.finished, finished);
}

void ThreadTeam::invite(Body body, void* context) {
  if (threads_ == 1) return;
  wake_up();
  State& s = *state_;
  if (s.guest == nullptr) {
    s.guest = body;
    s.guest_context = context;
  }
  STRETTO_CHECK(s.guest == body && s.guest_context == context, "another invitation");
  s.raise(1);
}

void ThreadTeam::work(int index) {
  State& s = *state_;
  uint32_t seen = 0;
  for (;;) {
    s.generation.wait(seen, std::memory_order_acquire);
    seen = s.generation.load(std::memory_order_acquire);
    if (s.stop.load()) return;
    const Worker worker{.index = index, .count = threads_, .barrier = &s.barrier, .thread = index};
    if (seen % 2 != 0) {
      s.guest(s.guest_context, worker);
      continue;
    }
    s.body(s.context, worker);
    if (s.running.fetch_sub(1, std::memory_order_acq_rel) == 1)
      set_and_wake(s.finished, s.finished.load(std::memory_order_relaxed) + 1);
  }
}

}  // namespace stretto
