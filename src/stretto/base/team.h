// A team of exactly N threads: the caller plus N-1 workers. Workers spin while a run is open and
// sleep on a futex outside it, because waking a sleeper costs tens of microseconds and a spin
// hand-over about a tenth of one. In a forked child, which has only the thread that forked, the
// first run starts the workers again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace stretto {

// Meeting point of `count` threads that all arrive within microseconds; spins, then sleeps.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void wait();
  int count() const { return count_; }

 private:
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<unsigned> phase_{0};
};

// What one thread of a parallel kernel knows of the team.
struct Worker {
  int index = 0;  // whose share of the work: 0 .. count-1
  int count = 1;
  Barrier* barrier = nullptr;  // of `count` threads; may be null when count is 1
  int thread = 0;              // which thread of the team this is, 0 the caller: for its own memory
  // The unit of that share to do (base/dealer.h): 0 .. units-1.
  int unit = 0, units = 1;
  // The phase of a kernel that has several (kernels/family.h).
  int phase = 0;

  // All threads of the team reach this point before any goes on.
  void sync() const {
    if (count > 1) barrier->wait();
  }
};

struct Range {
  int64_t begin, end;
};

// Part `index` of `count` of a range: contiguous, sizes differ by at most `grain`, boundaries are
// multiples of `grain` from the range's begin.
Range part_of(Range range, int64_t index, int64_t count, int64_t grain = 1);

// The part of [0, total) that a worker does: its unit of its share.
Range split(int64_t total, const Worker& worker, int64_t grain = 1);

class ThreadTeam {
 public:
  // Throws InvalidArgument unless 1 <= threads <= 1024, Unsupported when one cannot be started.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return threads_; }

  // Calls `body(context, worker)` once on every thread of the team, the caller being worker 0, and
  // returns when all are done. Not reentrant; one caller at a time. No allocation, no lock: workers
  // are woken at the start of the outermost run and sleep again some time after it ends.
  // `body` must not throw. Throws Unsupported when a forked child cannot start the workers.
  using Body = void (*)(void* context, const Worker& worker);
  void run(Body body, void* context);

  // Lets the workers call `body(context, worker)` when they get to it, and does not wait for them:
  // one that comes late to several invitations calls it once. For what goes on without them
  // (base/dealer.h). The same body and context every time, which must live as long as the team. May
  // be called between runs, like run(), and throws what that throws.
  void invite(Body body, void* context);

  template <typename F>
  void run(F&& f) {
    run([](void* context,
           const Worker& worker) { (*static_cast<std::decay_t<F>*>(context))(worker); },
        &f);
  }

 private:
  struct State;
  using Workers = std::vector<std::thread>;
  void start();
  void abandon();
  void wake_up();
  void work(int index);

  const int threads_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Workers> workers_;
  uint64_t forks_ = 0;  // when the workers started
};

}  // namespace stretto
