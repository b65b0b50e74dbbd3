#include "stretto/comm/tuning/tuning.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace stretto::comm {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> round_of(const std::vector<double>& times, int round, int steps) {
  const auto begin = times.begin() + round * steps;
  return {begin, begin + steps};
}

// The listed values next to `value` or, if `all`, every other; the next greater one comes first,
// because the default unit is more often too small than too large.
template <typename T>
std::vector<T> others(const std::vector<T>& listed, T value, bool all) {
  std::vector<T> result;
  const auto above = std::upper_bound(listed.begin(), listed.end(), value);
  if (above != listed.end()) result.push_back(*above);
  const auto at = std::lower_bound(listed.begin(), listed.end(), value);
  if (at != listed.begin()) result.push_back(*std::prev(at));
  for (const T& other : listed) {
    if (all && other != value && std::find(result.begin(), result.end(), other) == result.end())
      result.push_back(other);
  }
  return result;
}

}  // namespace

std::string setting_text(const StepSetting& setting) {
  const std::string streams = setting.streams == 0 ? "auto" : fmt::format("{}", setting.streams);
  return fmt::format("unit={} streams={} algorithm={}", setting.unit_bytes, streams,
                     setting.algorithm);
}

std::optional<StepSetting> parse_setting(std::string_view text) {
  StepSetting setting;
  const auto take = [&](std::string_view name, bool last = false) -> std::optional<std::string> {
    if (text.substr(0, name.size()) != name) return std::nullopt;
    text.remove_prefix(name.size());
    const size_t end = last ? text.size() : text.find(' ');
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    return value;
  };
  const auto number = [](const std::string& digits, auto& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value > 0;
  };
  const auto unit = take("unit="), streams = take("streams="), algorithm = take("algorithm=", true);
  if (!unit || !streams || !algorithm) return std::nullopt;
  if (!number(*unit, setting.unit_bytes)) return std::nullopt;
  if (*streams == "auto")
    setting.streams = 0;
  else if (!number(*streams, setting.streams))
    return std::nullopt;
  setting.algorithm = *algorithm;
  return setting;
}

std::string setting_key(std::string_view model, std::string_view topology) {
  return fmt::format("comm step model={} topology={}", model, topology);
}

StepTuner::StepTuner(StepTunerOptions options, StepSetting start, double known_s)
    : options_(std::move(options)), best_(start), start_(start), best_seconds_(known_s) {
  settled_ = known_s > 0;
  if (settled_) return;
  const bool finds = !survey_of(Knob::kAlgorithm).empty() || !survey_of(Knob::kUnit).empty() ||
                     !survey_of(Knob::kStreams).empty();
  if (options_.survey && finds) {
    surveying_ = true;
    trial_ = best_;  // its own time comes first
  } else {
    next_trial();
  }
}

// What the survey tries of a knob besides the best setting so far.
std::vector<StepSetting> StepTuner::survey_of(Knob knob) const {
  std::vector<StepSetting> found;
  const auto with = [&](auto change) {
    StepSetting setting = best_;
    change(setting);
    if (!(setting == best_)) found.push_back(setting);
  };
  switch (knob) {
    case Knob::kAlgorithm:
      for (const std::string& name : options_.algorithms)
        with([&](StepSetting& s) { s.algorithm = name; });
      break;
    case Knob::kStreams:
      // Links that choose for themselves do so from what they measure.
      if (best_.streams == 0) break;
      for (const int streams : options_.streams) with([&](StepSetting& s) { s.streams = streams; });
      break;
    case Knob::kUnit: {
      int64_t last = 0;
      for (const int64_t bytes : options_.unit_bytes) {
        if (bytes < last * options_.survey_ratio) continue;
        last = bytes;
        if (std::max(bytes, best_.unit_bytes) >= 2 * std::min(bytes, best_.unit_bytes))
          with([&](StepSetting& s) { s.unit_bytes = bytes; });
      }
      break;
    }
  }
  std::reverse(found.begin(), found.end());
  return found;
}

void StepTuner::begin_survey(Knob knob) {
  surveyed_knob_ = knob;
  survey_ = survey_of(knob);
  while (survey_.empty() && surveyed_knob_ != Knob::kStreams) {
    surveyed_knob_ = static_cast<Knob>(static_cast<int>(surveyed_knob_) + 1);
    survey_ = survey_of(surveyed_knob_);
  }
  if (survey_.empty()) return end_survey();
  trial_ = survey_.back();
}

void StepTuner::survey_step(double seconds) {
  if (++step_ <= options_.skip_steps) return;
  trial_times_.push_back(seconds);
  if (step_ < options_.skip_steps + options_.survey_steps) return;
  const double typical = median(trial_times_);
  const double least = *std::min_element(trial_times_.begin(), trial_times_.end());
  step_ = 0;
  trial_times_.clear();
  if (survey_best_s_ == 0) {  // it was the start
    survey_best_s_ = typical;
    return begin_survey(Knob::kUnit);
  }
  history_.push_back({trial_, typical, survey_best_s_, false, true});
  surveyed_.push_back({{surveyed_knob_, trial_}, least, 0});
  survey_.pop_back();
  if (typical < survey_best_s_ * (1 - options_.margin)) {
    history_.back().won = true;
    survey_best_s_ = typical;
    best_ = trial_;
  }
  if (!survey_.empty()) {
    trial_ = survey_.back();
    return;
  }
  for (Surveyed& s : surveyed_)
    if (s.candidate.knob == surveyed_knob_) s.best_s = survey_best_s_;
  if (surveyed_knob_ == Knob::kStreams) {
    end_survey();
  } else {
    begin_survey(static_cast<Knob>(static_cast<int>(surveyed_knob_) + 1));
  }
}

void StepTuner::end_survey() {
  surveying_ = false;
  next_trial();
}

std::vector<StepTuner::Candidate> StepTuner::neighbours() const {
  std::vector<Candidate> found;
  if (!(best_ == start_)) found.push_back({last_won_, start_});
  const auto with = [&](Knob knob, auto change) {
    found.push_back({knob, best_});
    change(found.back().setting);
  };
  for (const std::string& name : options_.algorithms)
    if (name != best_.algorithm)
      with(Knob::kAlgorithm, [&](StepSetting& s) { s.algorithm = name; });
  for (const int64_t bytes : others(options_.unit_bytes, best_.unit_bytes, options_.exhaustive))
    with(Knob::kUnit, [&](StepSetting& s) { s.unit_bytes = bytes; });
  for (const StepSetting& far : survey_of(Knob::kUnit)) found.push_back({Knob::kUnit, far});
  for (const int streams :
       others(options_.streams, best_.streams, options_.exhaustive || best_.streams == 0))
    with(Knob::kStreams, [&](StepSetting& s) { s.streams = streams; });
  // The knob that won last is tried first.
  std::stable_partition(found.begin(), found.end(),
                        [&](const Candidate& c) { return c.knob == last_won_; });
  return found;
}

// Other knobs may have changed since, but not by so much. The start was measured while the job
// warmed up, and is tried again.
bool StepTuner::surveyed_as_hopeless(const Candidate& candidate) const {
  if (candidate.setting == start_) return false;
  const auto value_of = [&](const StepSetting& s) {
    switch (candidate.knob) {
      case Knob::kAlgorithm:
        return std::pair(s.algorithm, int64_t{0});
      case Knob::kUnit:
        return std::pair(std::string(), s.unit_bytes);
      case Knob::kStreams:
        return std::pair(std::string(), int64_t{s.streams});
    }
    return std::pair(std::string(), int64_t{0});
  };
  return std::ranges::any_of(surveyed_, [&](const Surveyed& s) {
    return s.candidate.knob == candidate.knob &&
           value_of(s.candidate.setting) == value_of(candidate.setting) &&
           s.least_s > s.best_s * (1 + options_.survey_hopeless);
  });
}

void StepTuner::next_trial() {
  testing_ = false;
  round_ = step_ = 0;
  best_times_.clear();
  trial_times_.clear();
  for (const Candidate& candidate : neighbours()) {
    if (std::find(rejected_.begin(), rejected_.end(), candidate.setting) != rejected_.end() ||
        surveyed_as_hopeless(candidate))
      continue;
    trial_ = candidate.setting;
    trial_knob_ = candidate.knob;
    return;
  }
  settled_ = true;
  recent_.clear();
}

bool StepTuner::step(double seconds) {
  if (settled_) return watch_drift(seconds);
  if (surveying_) {
    const StepSetting before = trial_;
    survey_step(seconds);
    return !(current() == before);
  }
  const int phase = options_.skip_steps + rest() + options_.trial_steps;
  if (++step_ <= options_.skip_steps + rest()) return false;
  (testing_ ? trial_times_ : best_times_).push_back(seconds);
  const StepSetting before = current();
  if (testing_ && hopeless()) {
    finish_trial(false);
  } else if (step_ < phase) {
    return false;
  } else {
    step_ = 0;
    testing_ = !testing_;
    if (!testing_ && ++round_ == options_.rounds) finish_trial(has_won());
  }
  return !(current() == before);
}

int StepTuner::steps_to_decision() const {
  const StepTunerOptions& o = options_;
  if (settled_) return o.watch_steps;
  if (surveying_) return o.skip_steps + o.survey_steps - step_;
  const int phase = o.skip_steps + rest() + o.trial_steps,
            first_look = o.skip_steps + o.hopeless_steps;
  return (testing_ && step_ < first_look ? first_look : phase) - step_;
}

bool StepTuner::hopeless() const {
  const auto begin = trial_times_.begin() + round_ * options_.trial_steps;
  return trial_times_.end() - begin == options_.hopeless_steps &&
         *std::min_element(begin, trial_times_.end()) >
             median(best_times_) * (1 + options_.hopeless);
}

bool StepTuner::has_won() const {
  bool won = median(trial_times_) < median(best_times_) * (1 - options_.margin);
  // A trial must win every round, because the machine may be slow for one of them.
  for (int round = 0; round < options_.rounds; ++round)
    won = won && median(round_of(trial_times_, round, options_.trial_steps)) <
                     median(round_of(best_times_, round, options_.trial_steps));
  return won;
}

void StepTuner::finish_trial(bool won) {
  const double trial = median(trial_times_), best = median(best_times_);
  history_.push_back({trial_, trial, best, won, false});
  best_seconds_ = won ? trial : best;
  if (won) {
    rejected_ = {best_};
    best_ = trial_;
    last_won_ = trial_knob_;
  } else {
    rejected_.push_back(trial_);
  }
  next_trial();
}

bool StepTuner::watch_drift(double seconds) {
  recent_.push_back(seconds);
  if (static_cast<int>(recent_.size()) < options_.drift_steps) return false;
  const double now = median(std::move(recent_));
  recent_.clear();
  if (best_seconds_ == 0) best_seconds_ = now;  // there was nothing to try
  if (std::abs(now - best_seconds_) <= options_.drift * best_seconds_) return false;
  best_seconds_ = now;
  settled_ = false;
  rejected_.clear();
  surveyed_.clear();
  next_trial();
  return false;  // a round begins with the best setting
}

StepSetting recall_setting(const tune::TuningCache& cache, std::string_view key,
                           const StepSetting& fallback) {
  const auto choice = cache.find(key);
  return choice ? parse_setting(choice->candidate).value_or(fallback) : fallback;
}

void remember_setting(tune::TuningCache& cache, std::string_view key, const StepTuner& tuner) {
  cache.put(std::string(key), {setting_text(tuner.best()), tuner.best_seconds()});
}

}  // namespace stretto::comm
