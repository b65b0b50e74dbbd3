// What an engine keeps about the training steps of one group while it tunes their large all-reduces
// (tuning.h).
#pragma once

#include <array>
#include <memory>
#include <string>

#include "stretto/comm/engine/engine.h"
#include "stretto/comm/tuning/step_finder.h"
#include "stretto/comm/tuning/tuning.h"

namespace stretto::comm {

// Smaller all-reduces are not tuned: they are one unit, latency decides, and the cost model
// chooses.
inline constexpr int64_t kTunedBytes = 64 << 10;

// When the operations of one step were submitted and done, by now_s().
struct StepAccount {
  bool whole = false;  // it began and ended as a recognised step
  int open = 0;        // operations that are not over
  int64_t bytes = 0;   // all-reduced
  double began_s = 0, ended_s = 0;
  double submitted_s = 0, done_s = 0;  // of the last operation
  double busy_s = 0;                   // time with an operation under way
  double waited_s = 0;                 // part of it in which a thread waited
};

struct GroupTuning {
  StepFinder finder;
  std::string topology;

  // For the steps that the finder has recognised. There is no tuner until rank 0 has read the
  // cache.
  std::string key;
  std::unique_ptr<StepTuner> tuner;
  StepTunerOptions choices;
  StepSetting setting;      // in use
  uint64_t generation = 0;  // how often it has changed
  bool recalled = false;

  // Ranks agree by an all-reduce in a group of its own, one at a time. Its result is used at the
  // end of the next step, so that no rank waits for it.
  enum class Asks : uint8_t { kNothing, kCache, kTime };
  Asks asks = Asks::kNothing;
  Group channel = 0;
  Handle handle = 0;
  std::array<double, 5> words{};

  double began_s = 0;  // of the step under way
  double sum_s = 0;    // of the steps since the last agreement
  int steps = 0;
  double last_s = 0;  // the step time agreed on last

  // The two last steps, by number modulo 2; operations of both may be under way.
  std::array<StepAccount, 2> accounts;
  int64_t number = 0;
  StepStatistics totals;
};

}  // namespace stretto::comm
