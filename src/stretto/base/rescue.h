// Moves the threads of a team between cores so that none waits for one that the system has stopped.
//
// A thread that shares its core with another program is stopped for a time slice, 3 to 4 ms on
// Linux, every other slice. Who waits for it has a core to give. Linux moves a thread at once when
// the set of CPUs that it may run on loses the one where it is; so that set is made smaller for a
// moment, and then what it was. Elsewhere nothing is moved, nor where the system does not allow it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "stretto/base/function_ref.h"

namespace stretto {

// Where one thread of a team is. The thread writes it, others read it.
class Occupant {
 public:
  // Says which thread this is, outside.
  void set_thread() { thread_.store(pthread_self(), std::memory_order_relaxed); }
  // Around work that others may wait for. Leaving takes as long as somebody has claimed the thread.
  void enter();
  void leave();
  void reset() { state_.store(kNowhere); }  // when the thread is no more

  bool inside() const { return state() >= 0; }
  // Where it was when it last entered, or where it was moved then; large: nowhere yet.
  int cpu() const { return (state() >= 0 ? state() : ~state()) / 2; }

  // For another thread. The one that it claims is inside, and stays there, until it is released
  // with the CPU that it is on. False: it is not inside, or claimed by somebody else.
  bool claim();
  void release(int cpu) { state_.store(2 * cpu, std::memory_order_release); }
  pthread_t thread() const { return thread_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kNowhere = INT_MIN;
  int state() const { return state_.load(std::memory_order_relaxed); }

  std::atomic<int> state_{kNowhere};  // inside: 2 * CPU, plus 1 when claimed; outside: ~(2 * CPU)
  std::atomic<pthread_t> thread_{};
};

using Occupants = FunctionRef<Occupant&(int)>;  // of 0 .. threads-1

// What a waiting thread saw last: another one, and the processor time that it had used.
struct Look {
  int thread = -1;
  int64_t used_ns = 0, at_ns = 0;
};

// For a thread that waits, every now and then, the first time with a new Look: moves another one
// that is inside, and did not run since the last look, to this thread's CPU. Whether it did.
bool bring_here(int self, int threads, Occupants occupants, Look& look);

// For a thread that is outside: if another one is inside on the same CPU, goes to one where none of
// the team is. Whether it did. Linux wakes a thread on the core of the one that wakes it when no
// core is idle, and may leave both there.
bool spread(int self, int threads, Occupants occupants);

}  // namespace stretto
