// Timing several ways of doing the same thing fairly: interleaved, minimum of many, on noisy
// machines.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stretto::tune {

// One thing to time. `run` performs one execution; `prepare`, untimed, brings caches and inputs
// into the state in which the execution is to be timed. Without it, an untimed run does.
struct Trial {
  std::string name;
  std::function<void()> run;
  std::function<void()> prepare = {};
};

struct MeasureOptions {
  double budget_s = 0.05;  // for all trials together; every trial runs at least twice
  int min_rounds = 3;      // interleaved rounds even when the budget is spent, unless hopeless
  // So many rounds are enough once they have taken so long, whatever is left of the budget: the
  // minimum of them moves no more, and a disturbance has had time to pass.
  int enough_rounds = 100;
  double enough_s = 0.1;
  // A trial slower than this times the best after one round is dropped. Below 0.1 s it is run once
  // more before, because other work on the machine may have interrupted it.
  double hopeless = 3.0;
  // Only the fastest trial matters: after n rounds the limit is 1 + (hopeless - 1) / n, and when
  // one trial is left, ten rounds are enough.
  bool race = false;
};

// Best seconds per execution of each trial, in order. Rounds go through all trials in turn, so a
// disturbance hits all of them alike; the minimum discards it.
std::vector<double> measure(std::span<const Trial> trials, const MeasureOptions& options);

}  // namespace stretto::tune
