// Tunes the large all-reduces of one group on real training steps (tuning/tuning.h). Ranks change
// settings at the same operation: after the steps that a decision needs they start to agree on
// their times, and operations after the end of the next step wait for the result. Nobody who
// submits waits for it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/tuning/link_observer.h"
#include "stretto/comm/tuning/step_finder.h"
#include "stretto/comm/tuning/tuning.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::comm {

struct GroupState;
struct OpenOperation;

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

// The end of a step in the order of submission.
struct StepMark {
  StepFinder::Event event = StepFinder::Event::kNothing;
  double seconds = 0;  // of the step in which an operation was open
  std::string model;   // kModel: StepFinder::model()
};

// What waits until ranks have agreed on a setting: an operation, or the end of a step.
struct Held {
  OpenOperation* open = nullptr;  // null: a step has ended
  StepMark mark;
};

// How operations of a group run. An operation keeps those with which it began, because ranks that
// fuse it later must all plan it alike, whatever has changed meanwhile.
struct Settings {
  uint64_t generation = 0;  // how often they have changed
  bool tuned = false;       // `step` holds for all-reduces of kTunedBytes and more
  StepSetting step;
  LinkModel link;
};

struct StepTuning {
  StepFinder finder;
  std::string topology;
  // What the file had when the engine first needed it, and what its groups have found since. Null
  // where it is not used.
  std::shared_ptr<tune::TuningCache> cache;

  // For the steps that the finder has recognised. There is no tuner until rank 0 has read the
  // cache.
  std::string key;
  std::unique_ptr<StepTuner> tuner;
  StepTunerOptions choices;
  std::shared_ptr<const Settings> settings = std::make_shared<Settings>();  // in use
  bool recalled = false;

  // The agreement under way: an all-reduce of the greatest words, in a group of its own. `agreed`:
  // it is over, and its result is due at the end of the step.
  enum class Asks : uint8_t { kNothing, kCache, kTime };
  Asks asks = Asks::kNothing;
  bool agreed = false;
  Group channel = 0;
  std::deque<Held> held;  // until it is over; in order of submission
  // LinkCosts; then, for kCache, the step time, unit, streams, algorithm and 1 if the cache has
  // them, else zeros, and for kTime the times of some steps.
  std::vector<double> words;

  // What links cost, from the first known to the last: as this rank observed, as the ranks have
  // agreed (by end_step), and as this rank's tuning cache says. Groups of the same ranks
  // share what they observe.
  std::shared_ptr<LinkObserver> observer = std::make_shared<LinkObserver>();
  LinkCosts agreed_costs{}, cached_costs{};
  bool read_cache = false;  // for cached_costs

  // Settings are compared by the time in which operations are open. What a rank does while
  // none is open, such as loading data, does not depend on them, and its time may vary by much.
  int open = 0;               // operations that are not over
  double idle_since_s = 0;    // when the last of them was over
  double idle_s = 0;          // of the step under way
  double began_s = 0;         // of the step under way
  std::vector<double> times;  // of the steps since the last agreement began
  double last_s = 0;          // the time agreed on last

  // The two last steps, by number modulo 2; operations of both may be under way.
  std::array<StepAccount, 2> accounts;
  int64_t number = 0;
  StepStatistics totals;
};

// What this rank knows of the group's links; ranks may know different costs.
LinkCosts known_costs(const StepTuning& tuning);

// Whether a member of this place in a group tells the others what its tuning cache has.
inline bool tells_cache(int rank, size_t ranks, const Options& options) {
  return rank == 0 && ranks > 1 && options.tuning == Tuning::kQuick;
}

// Reads the file, so the caller must not hold the engine's lock.
std::shared_ptr<tune::TuningCache> read_cache(const Options& options);

// What the tuning cache says of the links of a topology; zeros: nothing. Reads a file.
LinkCosts cached_costs(const std::string& topology, const Options& options);

// `most_streams`: of a link to a member.
std::unique_ptr<StepTuning> make_step_tuning(const GroupState& group, const Options& options,
                                             int most_streams);

// What the finder of steps sees in a collective that is submitted.
StepFinder::Event find_step(StepTuning& tuning, const Operation& operation);

// Notes the time of an event and returns its mark, or none where nothing is to be done.
StepMark mark_step(StepTuning& tuning, StepFinder::Event event, const Options& options);

// True while the operations that follow a mark have to wait for the agreement.
inline bool awaits_agreement(const StepTuning& t) {
  return t.asks != StepTuning::Asks::kNothing && !t.agreed;
}

// Keeps a mark until the ranks have agreed on the step before, and all marks before it have been
// taken. False: nothing is to be waited for, and `mark` is as it was.
bool hold(StepTuning& tuning, StepMark&& mark);
// Where marks are kept, operations wait behind them.
inline bool holds(const StepTuning& tuning) { return !tuning.held.empty(); }
inline void hold(StepTuning& tuning, OpenOperation* open) { tuning.held.push_back({open, {}}); }
// The next of them that need not wait any more.
std::optional<Held> take_held(StepTuning& tuning);

// What follows the end of a step.
struct StepEnd {
  bool changed = false;  // plans with the settings before are not valid any more
  bool asks = false;     // the ranks have to agree on StepTuning::words now
  // What rank 0 has to write to the tuning cache's file, without the engine's lock; may be empty.
  std::function<void()> remember;
};

// Uses what the ranks have agreed on, and begins the next step. For marks in their order, when
// awaits_agreement() is false.
StepEnd end_step(StepTuning& tuning, const GroupState& group, const Options& options,
                 const StepMark& mark);

// The account of the group's steps.
void note_submitted(StepTuning& tuning, OpenOperation& open);
void note_wait(StepTuning& tuning, const OpenOperation& open, double seconds);
void note_done(StepTuning& tuning, const OpenOperation& open);
void note_withdrawn(StepTuning& tuning, const OpenOperation& open);  // it has never begun

TuningStatistics tuning_statistics(const GroupState& group);

}  // namespace stretto::comm
