// What an engine knows about the steps of one group while it looks for the settings of their large
// all-reduces (tuning.h).
#pragma once

#include <array>
#include <memory>
#include <string>

#include "stretto/comm/engine.h"
#include "stretto/comm/step_finder.h"
#include "stretto/comm/tuning.h"

namespace stretto::comm {

// Smaller all-reduces are left to the cost model: they are one unit, and latency decides.
inline constexpr int64_t kTunedBytes = 64 << 10;

// The account of one step: when its operations were submitted and done.
struct StepAccount {
  bool whole = false;  // it began and ended as a step of the model
  int open = 0;        // operations that are not done
  int64_t bytes = 0;   // of all-reduces
  double began_s = 0, ended_s = 0;
  double submitted_s = 0, done_s = 0;  // of the last one
  double busy_s = 0;                   // something was under way
  double waited_s = 0;                 // somebody waited for it
};

struct GroupTuning {
  StepFinder finder;
  std::string topology;

  // Of the model that the finder has recognised; no tuner before the record was asked.
  std::string key;
  std::unique_ptr<StepTuner> tuner;
  StepTunerOptions choices;
  StepSetting setting;      // in use, when there is a tuner
  uint64_t generation = 0;  // how often it has changed
  bool recalled = false;

  // Agreement between ranks: one operation of a group of its own is under way at most. Its result
  // is taken at the end of the next step, when it has long come.
  enum class Asks : uint8_t { kNothing, kRecord, kTime };
  Asks asks = Asks::kNothing;
  Group channel = 0;
  Handle handle = 0;
  std::array<double, 5> words{};

  double began_s = 0;  // the step under way
  double sum_s = 0;    // of steps not told to the others yet
  int steps = 0;
  double last_s = 0;  // the time agreed on last

  // Steps of which operations may be open: by number, modulo two.
  std::array<StepAccount, 2> accounts;
  int64_t number = 0;
  StepStatistics totals;
};

}  // namespace stretto::comm
