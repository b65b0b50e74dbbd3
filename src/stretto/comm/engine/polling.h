// Which thread polls the links, which threads sleep meanwhile, and which are woken.
//
// One thread polls at a time. A thread that waits for an operation does it itself, so that a small
// operation costs one wake-up instead of three. The progress thread polls when no thread waits, and
// no thread of Stretto's own comes back at once to wait for more (attendance.h). Large sums and
// codecs run on the thread that polls, and on a helper thread where the host has a core for it.
//
// Decisions are values: what a thread does next is a Turn or a time to sleep, and whom a change
// concerns is a Wake. The caller holds the engine's lock, which only sleep_*() and yield() release.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "stretto/comm/engine/spin.h"

namespace stretto::comm {

class Polling {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // What a thread does that waits for an operation.
  enum class Turn : uint8_t {
    kSleep,  // another thread polls
    kSpin,   // it reads what has arrived, and gives way to other threads
    kPoll,
  };

  // Threads that have to act.
  struct Wake {
    bool progress = false;  // the progress thread, which will poll
    bool waiters = false;   // all that wait for an operation, or attend
    bool helper = false;
    bool poller = false;  // the one that polls: the caller makes its poll return (Links::interrupt)
    bool operator==(const Wake&) const = default;
  };

  // The ranks of this host share so many cores. Until this is called, a rank has no core of its
  // own.
  void set_cores(size_t cores, size_t ranks_here) {
    core_each_ = cores >= ranks_here;
    helps_ = cores >= 2 * ranks_here;
  }
  // Whether there is a core for a helper thread.
  bool helps() const { return helps_; }

  // No thread begins to poll any more; the engine's own threads end when they are woken.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // This thread polls from begin() to end(). Only where under_way() is false.
  void begin() {
    under_way_ = true;
    poller_ = std::this_thread::get_id();
  }
  void end() { under_way_ = false; }
  bool under_way() const { return under_way_; }
  // A thread that has waited meanwhile polls next.
  Wake after_poll() const { return {.waiters = waiters_ > 0}; }

  // How long the progress thread stays away from the links, unless it is woken; 0: it polls now.
  // `unfinished` operations are not over.
  double progress_pause_s(int64_t unfinished, double now_s) const;

  // A thread waits for an operation from begin_wait() to end_wait().
  void begin_wait() { ++waiters_; }
  // How long it spins: for an operation of so many bytes, which may be Stretto's own (`unseen`).
  Spin spin(double now_s, double spin_s, int64_t bytes, bool unseen) const;
  Turn turn(bool has_local_steps, const Spin& spin, double now_s) const;
  Wake end_wait(int64_t unfinished, double now_s);

  // A thread attends from begin_attend() to end_attend(). `begins`: it will come back at once,
  // again and again, until dismiss(), and other threads rely on it to poll.
  void begin_attend(bool begins) {
    attendants_ += begins;
    ++waiters_;
  }
  Wake end_attend();
  Wake dismiss(int64_t unfinished);

  // Whom it concerns that an operation is under way that no caller waits for yet, ...
  Wake on_begun() const { return {.progress = !under_way_ && attendants_ == 0}; }
  // ... that so many local steps wait for a thread, ...
  Wake on_local_steps(size_t waiting) const;
  // ... that an operation is over, ...
  Wake on_over() const;
  // ... and that those who attend have to look again at what they wait for.
  Wake on_call() const;

  // Wakes threads, but not the one that polls.
  void wake(const Wake& wake);

  void sleep_waiting(Lock& lock, double most_s);
  void sleep_progress(Lock& lock, double most_s);
  void sleep_helper(Lock& lock);
  static void yield(Lock& lock);

  // In a forked child, whose copies of sleeping threads do not exist.
  void forget_sleepers();

 private:
  bool others_poll() const { return under_way_ && poller_ != std::this_thread::get_id(); }

  bool core_each_ = false, helps_ = false;
  bool stopped_ = false;
  bool under_way_ = false;
  std::thread::id poller_;
  int waiters_ = 0;         // threads that wait for an operation, or attend
  int attendants_ = 0;      // threads that will soon attend again
  double last_wait_s_ = 0;  // when a wait for an operation ended last
  std::condition_variable progress_wake_, helper_wake_, waiter_wake_;
};

}  // namespace stretto::comm
