// Finding the engine's settings on real steps: hill-climbing, one knob at a time, over step times
// that all ranks have agreed on (the slowest rank's), so that all change their settings at the same
// step. A pure state machine: the same times give the same settings. Steps vary by more than
// settings do, so a trial alternates with the best setting so far, compares medians, and wins only
// by a clear margin, in every turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/tune/record.h"

namespace stretto::comm {

struct StepSetting {
  int64_t unit_bytes = 1 << 20;
  int streams = 0;             // per peer; 0: as many as the links find to pay
  std::string algorithm = "";  // of all_reduce; empty: by the cost model

  bool operator==(const StepSetting&) const = default;
};

std::string setting_text(const StepSetting& setting);  // "unit=1048576 streams=auto algorithm=ring"
std::optional<StepSetting> parse_setting(std::string_view text);

// The record's key for one model on one topology: both any text without tabs or line ends.
std::string setting_key(std::string_view model, std::string_view topology);

struct StepTunerOptions {
  // What may be tried, each in its natural order; the climb goes to neighbours (of algorithms, and
  // from streams=auto: to any other). A starting value that is missing here is kept until a listed
  // one beats it.
  std::vector<int64_t> unit_bytes = {128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
  std::vector<int> streams = {1, 2, 4, 8};
  std::vector<std::string> algorithms = {};  // those that fit; empty: leave it alone

  int skip_steps = 2;    // after a change, which still carry the old setting
  int trial_steps = 5;   // per turn
  int turns = 2;         // of the trial and of the best, alternating
  double margin = 0.03;  // a trial has to be this much faster
  double drift = 0.15;   // tune again when the median of `drift_steps` leaves the best's by this
  int drift_steps = 50;
};

class StepTuner {
 public:
  // `known_s` > 0: `start` was found earlier to take that long; nothing is tried before it drifts.
  StepTuner(StepTunerOptions options, StepSetting start, double known_s = 0);

  // The setting for the next step.
  const StepSetting& current() const { return testing_ ? trial_ : best_; }

  // The agreed time of the step that ran with current(). True when current() has changed.
  bool step(double seconds);

  bool settled() const { return settled_; }
  const StepSetting& best() const { return best_; }
  double best_seconds() const { return best_seconds_; }  // median; 0 before the first trial is over

  // What was tried so far, in order; for the report.
  struct Tried {
    StepSetting setting;
    double seconds = 0, against_seconds = 0;
    bool won = false;
  };
  const std::vector<Tried>& history() const { return history_; }

 private:
  enum class Knob { kAlgorithm, kUnit, kStreams };
  struct Candidate {
    Knob knob;
    StepSetting setting;
  };
  std::vector<Candidate> neighbours() const;
  void next_trial();
  void finish_trial();
  bool watch_drift(double seconds);

  const StepTunerOptions options_;
  StepSetting best_, trial_;
  Knob trial_knob_ = Knob::kAlgorithm, last_won_ = Knob::kAlgorithm;
  double best_seconds_ = 0;
  bool settled_ = false, testing_ = false;
  int turn_ = 0, step_ = 0;
  std::vector<double> best_times_, trial_times_, recent_;
  std::vector<StepSetting> rejected_;  // since best_ became the best
  std::vector<Tried> history_;
};

// Starts from what the record knows for the key, else from `fallback`.
StepSetting recall_setting(const tune::Record& record, std::string_view key,
                           const StepSetting& fallback);
void remember_setting(tune::Record& record, std::string_view key, const StepTuner& tuner);

}  // namespace stretto::comm
