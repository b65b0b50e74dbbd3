// Tunes the engine's settings on real steps. It gets step times that all ranks have agreed on (the
// slowest rank's, without the time in which no operation is open), so all ranks change settings at
// the same step. A pure state machine: the same times give the same settings.
//
// First a survey: a few steps with some values of each knob, one knob after the other, so that a
// bad start is left within some fifty steps. The unit comes first, because algorithms look alike
// where units are far too small. Then hill climbing, first back to the start if that is better
// after all: step times vary more than settings change them, so a trial alternates with the best
// setting so far, medians are compared, and a trial must win by a clear margin in every round. What
// is tried is usually slower, so most steps between two trials have the best setting, and a trial
// that is clearly slower ends after a few steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/tune/tuning_cache.h"

namespace stretto::comm {

struct StepSetting {
  int64_t unit_bytes = 1 << 20;
  int streams = 0;             // per link; 0: as many as StreamChoice finds faster
  std::string algorithm = "";  // of all_reduce; empty: by the cost model

  bool operator==(const StepSetting&) const = default;
};

std::string setting_text(const StepSetting& setting);  // "unit=1048576 streams=auto algorithm=ring"
std::optional<StepSetting> parse_setting(std::string_view text);

// The tuning cache's key for one model on one topology: both any text without tabs or line ends.
std::string setting_key(std::string_view model, std::string_view topology);

struct StepTunerOptions {
  // The values to try, in ascending order. A trial goes to a neighbour of the best value, and to
  // units that the survey tries; of algorithms, and from streams=auto, to any other. A starting
  // value that is not listed is kept until a listed one wins.
  std::vector<int64_t> unit_bytes = {128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
  std::vector<int> streams = {1, 2, 4, 8};
  std::vector<std::string> algorithms = {};  // those that fit; empty: not tuned
  bool exhaustive = false;  // try every listed value of a knob, not only those next to the best

  bool survey = true;            // before the first trial
  int survey_steps = 3;          // counted for a value
  int64_t survey_ratio = 4;      // between units that the survey tries
  double survey_hopeless = 0.3;  // a value that the survey found slower by this share is not tried

  int skip_steps = 2;      // not counted after a change, because they still have the old setting
  int trial_steps = 5;     // counted in a round
  int rounds = 2;          // in which the trial and the best setting alternate
  int rest_steps = 25;     // with the best setting before a trial, besides those that are counted
  int hopeless_steps = 2;  // counted in a round before a trial may be given up
  double hopeless = 0.1;   // share by which the fastest of them is slower
  double margin = 0.03;    // share by which a trial must be faster
  double drift = 0.15;     // tunes again when the median of `drift_steps` differs by this share
  int drift_steps = 50;
  int watch_steps = 8;  // that are reported together once nothing is tried any more
};

class StepTuner {
 public:
  // known_s > 0: the step time of `start` is known, and nothing is tried before steps drift from
  // it.
  StepTuner(StepTunerOptions options, StepSetting start, double known_s = 0);

  // The setting for the next step.
  const StepSetting& current() const { return testing_ || surveying_ ? trial_ : best_; }

  // The agreed time of the step that ran with current(). True when current() has changed.
  bool step(double seconds);

  // So many calls of step() do not change current(), except the last. Ranks need not agree on their
  // times before.
  int steps_to_decision() const;

  bool settled() const { return settled_; }
  const StepSetting& best() const { return best_; }
  double best_seconds() const {
    return best_seconds_;
  }  // median; 0 before the first trial has ended

  // The trials so far, in order, for the report.
  struct Tried {
    StepSetting setting;
    double seconds = 0, against_seconds = 0;
    bool won = false;
    bool surveyed = false;  // by few steps
  };
  const std::vector<Tried>& history() const { return history_; }

 private:
  enum class Knob { kUnit, kAlgorithm, kStreams };  // in the order of the survey
  struct Candidate {
    Knob knob;
    StepSetting setting;
  };
  std::vector<Candidate> neighbours() const;
  std::vector<StepSetting> survey_of(Knob knob) const;
  bool surveyed_as_hopeless(const Candidate& candidate) const;
  void begin_survey(Knob knob);
  void survey_step(double seconds);
  void end_survey();
  void next_trial();
  bool hopeless() const;
  int rest() const { return testing_ || round_ > 0 ? 0 : options_.rest_steps; }
  void finish_trial(bool won);
  bool has_won() const;
  bool watch_drift(double seconds);

  const StepTunerOptions options_;
  StepSetting best_, trial_;
  const StepSetting start_;
  bool surveying_ = false;
  Knob surveyed_knob_ = Knob::kUnit;
  std::vector<StepSetting> survey_;  // still to be tried, last first
  double survey_best_s_ = 0;         // of best_
  struct Surveyed {
    Candidate candidate;
    double least_s = 0;  // of its steps
    double best_s = 0;   // with another value of the knob
  };
  std::vector<Surveyed> surveyed_;
  Knob trial_knob_ = Knob::kUnit, last_won_ = Knob::kUnit;
  double best_seconds_ = 0;
  bool settled_ = false, testing_ = false;
  int round_ = 0, step_ = 0;
  std::vector<double> best_times_, trial_times_, recent_;
  std::vector<StepSetting> rejected_;  // since best_ became the best
  std::vector<Tried> history_;
};

// What the tuning cache knows for the key, else `fallback`.
StepSetting recall_setting(const tune::TuningCache& cache, std::string_view key,
                           const StepSetting& fallback);
void remember_setting(tune::TuningCache& cache, std::string_view key, const StepTuner& tuner);

}  // namespace stretto::comm
