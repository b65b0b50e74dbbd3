// Deals the work of a sequence of steps to the threads of a team, so that a thread that is slower
// than the others, or that the system has stopped, costs its own time only.
//
// Every step is cut into as many shares as there are threads, and every share into units. A thread
// does the units of its own share in order, then takes units of others. A step ends with its last
// unit, not when all threads have arrived, and the next one starts at once; a thread that was
// stopped between two units comes back to whatever step the others are at. One that was stopped
// within a unit is brought to the core of a thread that waits for it (base/rescue.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/base/rescue.h"
#include "stretto/base/team.h"

namespace stretto {

class Dealer {
 public:
  // Units of each share of each step; 0: a step that the caller does alone. Throws as ThreadTeam.
  // Without a team the caller does all shares of each step, as in run_alone().
  Dealer(int threads, std::vector<int> units, bool has_team = true);

  struct Job {
    // Does unit `worker.unit` of share `worker.index` of a step, on any thread of the team. What it
    // does must not depend on the thread (`worker.thread`), nor wait for other units. Must not
    // throw.
    FunctionRef<void(int step, const Worker& worker)> unit;
    // Does a step that has no units. May use team(). What it throws ends the run.
    FunctionRef<void(int step)> alone;
    // Called on the caller's thread after each unit and step that it does. What it throws ends the
    // run.
    FunctionRef<void()> check;
    // One per step, or empty: seconds of each step are added.
    std::span<double> seconds;
  };

  // Does all steps in order and returns when nobody works on any; with one thread, each step is one
  // unit. One caller at a time. Allocates nothing and takes no lock. Throws what `alone` or `check`
  // has thrown, when nobody works on any step any more.
  void run(const Job& job);

  // The same by the caller's thread only: the others are left asleep.
  void run_alone(const Job& job);

  // For steps without units.
  ThreadTeam& team() { return team_; }

 private:
  // What a thread writes while others run, in cache lines of its own.
  struct alignas(64) Place {
    // Of its share: the tag of the step of which units were last taken, and how many.
    std::atomic<uint64_t> taken{0};
    Occupant occupant;
  };

  void run_steps(uint64_t first);
  void work(int thread);
  void take_part(int thread, uint64_t tag, int step);
  int take(int share, uint64_t tag, int units);
  void do_unit(int thread, int share, int unit, int step);
  bool finish(int units, uint64_t tag, int step);
  void count_time(int step);
  void advance(uint64_t tag);
  void wait(int thread, uint64_t tag);
  int step_of(uint64_t tag) const { return static_cast<int>(tag % (units_.size() + 1)); }
  bool dealt(int step) const { return static_cast<size_t>(step) < units_.size() && units_[step]; }

  const int threads_;
  const std::vector<int> units_;
  // The step that is open, as a number that only grows: the steps of a run are followed by a pause,
  // and that by the next run. The bell has its low bits, for those who wait.
  alignas(64) std::atomic<uint64_t> open_;
  std::atomic<uint32_t> bell_{0};
  alignas(64) std::atomic<int> done_{0};  // units of the open step
  double opened_s_ = 0;                   // when it was opened, in a timed run
  alignas(64) const Job* job_ = nullptr;  // of the run, read only with a unit in hand
  std::atomic<bool> stop_{false};         // units are taken, but not done any more
  std::exception_ptr failure_;
  std::unique_ptr<Place[]> places_;
  uint64_t forks_;
  ThreadTeam team_;  // last, so that its threads end first
};

}  // namespace stretto
