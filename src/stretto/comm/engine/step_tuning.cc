#include "stretto/comm/engine/step_tuning.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/collective/unit_size.h"
#include "stretto/comm/engine/state.h"
#include "stretto/tune/cache_file.h"

namespace stretto::comm {
namespace {

constexpr int64_t kModelBytes = 16 << 20;  // the size for which algorithms are compared

constexpr std::string_view kLinks = "links";  // the tuning cache's key for costs, with a topology
constexpr size_t kChoiceWords = 5;
constexpr size_t kAfterCosts = kLinkCosts;  // in StepTuning::words

// Ends a step. Its last operations may still be under way, so it is counted when the next one ends.
void close_account(StepTuning& t, bool whole, double now) {
  const StepAccount& done = t.accounts[(t.number + 1) & 1];
  if (done.whole && done.open == 0) {
    StepStatistics& s = t.totals;
    ++s.steps;
    s.bytes += done.bytes;
    s.seconds += done.ended_s - done.began_s;
    s.busy_s += done.busy_s;
    s.exposed_s += std::min(done.busy_s, std::max(done.waited_s, done.done_s - done.submitted_s));
  }
  StepAccount& ended = t.accounts[t.number & 1];
  ended.whole = whole;
  ended.ended_s = now;
  ++t.number;
  t.accounts[t.number & 1] = {};
  t.accounts[t.number & 1].began_s = now;
}

// A large all-reduce, for which settings are compared.
Problem sample_problem(const GroupState& group, const Options& options, const LinkModel& link) {
  return make_problem({.count = kModelBytes / 4}, group, nullptr, options.chunk_bytes, link);
}

StepSetting default_setting(const GroupState& group, const Options& options,
                            const LinkModel& link) {
  if (!options.tuning_start.empty()) return *parse_setting(options.tuning_start);
  return {.unit_bytes = default_unit_bytes(sample_problem(group, options, link),
                                           options.chunk_bytes, kModelBytes, link),
          .streams = options.streams,
          .algorithm = ""};
}

// Changes the settings of operations that have not begun.
void change(StepTuning& t, Settings next) {
  ++next.generation;
  t.settings = std::make_shared<Settings>(std::move(next));
}

// True when the setting has changed.
bool set(StepTuning& t, const StepSetting& setting) {
  const bool tuned = t.tuner != nullptr;
  if (setting == t.settings->step && tuned == t.settings->tuned) return false;
  Settings next = *t.settings;
  next.step = setting;
  next.tuned = tuned;
  change(t, std::move(next));
  return true;
}

LinkCosts costs_in(const tune::TuningCache& cache, const std::string& topology) {
  const auto known = cache.find(setting_key(kLinks, topology));
  return (known ? parse_link_costs(known->candidate) : std::nullopt).value_or(LinkCosts{});
}

// What the first rank of the group sends to the others, whose files may differ.
std::vector<double> ask_tuning_cache(const StepTuning& t) {
  std::vector<double> words(kAfterCosts + kChoiceWords);
  const tune::TuningCache& cache = *t.cache;
  const LinkCosts costs = first_known(t.observer->costs(), costs_in(cache, t.topology));
  std::copy(costs.begin(), costs.end(), words.begin());
  const auto choice = cache.find(t.key);
  const auto setting = choice ? parse_setting(choice->candidate) : std::nullopt;
  if (!setting) return words;
  const auto& names = t.choices.algorithms;
  const auto name = std::find(names.begin(), names.end(), setting->algorithm);
  const std::array<double, kChoiceWords> found = {
      choice->seconds, static_cast<double>(setting->unit_bytes),
      static_cast<double>(setting->streams),
      name == names.end() ? 0.0 : 1.0 + static_cast<double>(name - names.begin()), 1};
  std::copy(found.begin(), found.end(), words.begin() + kAfterCosts);
  return words;
}

// Uses costs that the ranks have agreed on. True when the model has changed, so that algorithms are
// chosen anew.
bool set_costs(StepTuning& t) {
  LinkCosts costs;
  std::copy_n(t.words.begin(), costs.size(), costs.begin());
  t.agreed_costs = first_known(costs, t.agreed_costs);
  if (!differ(costs, costs_of(t.settings->link))) return false;
  Settings next = *t.settings;
  next.link = model_of(costs, next.link);
  change(t, std::move(next));
  return true;
}

bool begin_tuner(StepTuning& t, const GroupState& group, const Options& options) {
  StepSetting start = default_setting(group, options, t.settings->link);
  const std::span choice(t.words.begin() + kAfterCosts, kChoiceWords);
  t.recalled = choice[4] > 0;
  if (t.recalled) {
    start = {.unit_bytes = static_cast<int64_t>(choice[1]),
             .streams = static_cast<int>(choice[2]),
             .algorithm = ""};
    const auto name = static_cast<size_t>(choice[3]);
    if (name > 0 && name <= t.choices.algorithms.size())
      start.algorithm = t.choices.algorithms[name - 1];
  }
  t.tuner = std::make_unique<StepTuner>(t.choices, start, t.recalled ? choice[0] : 0);
  return set(t, t.tuner->current());
}

// True when the setting has changed.
bool take_agreement(StepTuning& t, const GroupState& group, const Options& options,
                    std::function<void()>* remember) {
  if (t.asks == StepTuning::Asks::kNothing) return false;
  t.agreed = false;
  bool changed = set_costs(t);
  if (std::exchange(t.asks, StepTuning::Asks::kNothing) == StepTuning::Asks::kCache)
    return begin_tuner(t, group, options) || changed;
  if (!t.tuner) return changed;
  const bool was_settled = t.tuner->settled();
  const auto times = std::span(t.words).subspan(kAfterCosts);
  for (const double seconds : times) t.tuner->step(seconds);
  t.last_s = times.back();
  changed |= set(t, t.tuner->current());
  if (t.tuner->settled() && !was_settled && group.rank == 0) {
    tune::TuningCache found;
    remember_setting(found, t.key, *t.tuner);
    found.put(setting_key(kLinks, t.topology), {link_costs_text(t.agreed_costs), 0});
    if (t.cache) t.cache->merge(found);
    *remember = [found = std::move(found), path = tune::tuning_cache_path(options.tuning_cache)] {
      tune::add_to_tuning_cache(path, found);
    };
  }
  return changed;
}

// True when ranks have to agree on `words` now; `*changed` becomes true when the setting has
// changed.
bool begin_step(StepTuning& t, const GroupState& group, const Options& options,
                const StepMark& mark, bool* changed) {
  if (mark.event == StepFinder::Event::kModel) {
    t.key = setting_key(mark.model, t.topology);
    t.tuner.reset();
    t.recalled = false;
    t.times.clear();
    *changed |= set(t, default_setting(group, options, t.settings->link));
    const LinkCosts observed = t.observer->costs();
    t.words.assign(observed.begin(), observed.end());
    t.words.resize(kAfterCosts + kChoiceWords);
    if (t.cache) t.words = ask_tuning_cache(t);
    t.asks = StepTuning::Asks::kCache;
    return true;
  }
  if (!t.tuner) return false;
  t.times.push_back(mark.seconds);
  if (std::ssize(t.times) < t.tuner->steps_to_decision()) return false;
  const LinkCosts costs = t.observer->costs();
  t.words.assign(costs.begin(), costs.end());
  t.words.insert(t.words.end(), t.times.begin(), t.times.end());
  t.times.clear();
  t.asks = StepTuning::Asks::kTime;
  return true;
}

}  // namespace

LinkCosts known_costs(const StepTuning& t) {
  return first_known(t.observer->costs(), first_known(t.agreed_costs, t.cached_costs));
}

std::shared_ptr<tune::TuningCache> read_cache(const Options& options) {
  return std::make_shared<tune::TuningCache>(
      tune::load_tuning_cache(tune::tuning_cache_path(options.tuning_cache)));
}

LinkCosts cached_costs(const std::string& topology, const Options& options) {
  return costs_in(tune::load_tuning_cache(tune::tuning_cache_path(options.tuning_cache)), topology);
}

std::unique_ptr<StepTuning> make_step_tuning(const GroupState& group, const Options& options,
                                             int most_streams) {
  auto tuning = std::make_unique<StepTuning>();
  StepTuning& t = *tuning;
  if (options.tuning == Tuning::kFull) {
    t.choices.exhaustive = true;
    t.choices.rounds *= 2;
    t.choices.rest_steps = 0;
  }
  const Problem problem = sample_problem(group, options, {});
  t.choices.unit_bytes = unit_sizes_to_try(problem, options.chunk_bytes);
  if (options.algorithm == "auto") t.choices.algorithms = algorithms_to_try(problem, {});
  std::erase_if(t.choices.streams,
                [&](int count) { return count > most_streams || most_streams <= 1; });

  if (options.tuning == Tuning::kOff && !options.tuning_start.empty())
    t.settings = std::make_shared<Settings>(
        Settings{.tuned = true, .step = *parse_setting(options.tuning_start), .link{}});

  t.topology = fmt::format("{} streams, {} interfaces, ranks", options.connected_streams(),
                           std::max<size_t>(options.interfaces.size(), 1));
  const Hosts& hosts = group.placement.hosts();
  for (int h = 0; h < hosts.count(); ++h) {
    if (h > 0 && hosts.rack[h] != hosts.rack[h - 1]) t.topology += " /";
    t.topology += fmt::format(" {}", hosts.size(h));
  }
  return tuning;
}

StepFinder::Event find_step(StepTuning& t, const Operation& operation) {
  // Other kinds are not tuned, and their counts may differ between ranks.
  const int64_t bytes = operation.kind == Kind::kAllReduce ? bytes_of(operation) : 0;
  return t.finder.operation(fingerprint(operation), bytes);
}

StepMark mark_step(StepTuning& t, StepFinder::Event event, const Options& options) {
  if (event == StepFinder::Event::kNothing) return {};
  const double now = now_s();
  if (t.open == 0) t.idle_s += now - std::max(t.idle_since_s, t.began_s);
  const double seconds = now - std::exchange(t.began_s, now) - std::exchange(t.idle_s, 0);
  close_account(t, event == StepFinder::Event::kStep, now);
  if (event == StepFinder::Event::kOther || options.tuning == Tuning::kOff) return {};
  StepMark mark{.event = event, .seconds = seconds, .model{}};
  if (event == StepFinder::Event::kModel) mark.model = t.finder.model();
  return mark;
}

bool hold(StepTuning& t, StepMark&& mark) {
  if (!holds(t) && !awaits_agreement(t)) return false;
  t.held.push_back({nullptr, std::move(mark)});
  return true;
}

std::optional<Held> take_held(StepTuning& t) {
  if (!holds(t) || (!t.held.front().open && awaits_agreement(t))) return {};
  Held next = std::move(t.held.front());
  t.held.pop_front();
  return next;
}

StepEnd end_step(StepTuning& t, const GroupState& group, const Options& options,
                 const StepMark& mark) {
  StepEnd end;
  end.changed = take_agreement(t, group, options, &end.remember);
  end.asks = begin_step(t, group, options, mark, &end.changed);
  return end;
}

void note_submitted(StepTuning& t, OpenOperation& open) {
  if (t.open++ == 0) t.idle_s += open.submitted_s - std::max(t.idle_since_s, t.began_s);
  StepAccount& a = t.accounts[t.number & 1];
  open.step = t.number;
  ++a.open;
  a.submitted_s = open.submitted_s;
  if (open.operation.kind == Kind::kAllReduce) a.bytes += bytes_of(open);
}

void note_wait(StepTuning& t, const OpenOperation& open, double seconds) {
  if (open.step >= t.number - 1) t.accounts[open.step & 1].waited_s += seconds;
}

void note_withdrawn(StepTuning& t, const OpenOperation& open) {
  if (--t.open == 0) t.idle_since_s = now_s();
  if (open.step >= t.number - 1) --t.accounts[open.step & 1].open;
}

void note_done(StepTuning& t, const OpenOperation& open) {
  const double now = now_s();
  if (--t.open == 0) t.idle_since_s = now;
  if (open.started_s > 0)
    t.observer->observe(open.error ? nullptr : open.traffic, open.started_s, now, open.coding_s,
                        open.units);
  if (open.step < t.number - 1) return;
  StepAccount& a = t.accounts[open.step & 1];
  --a.open;
  if (open.started_s > 0) a.busy_s += now - std::max(open.started_s, a.done_s);
  a.done_s = now;
}

TuningStatistics tuning_statistics(const GroupState& group) {
  const StepTuning& t = *group.tuning;
  TuningStatistics s{.group = group.name,
                     .model = t.finder.model(),
                     .setting = setting_text(t.settings->step),
                     .recalled = t.recalled,
                     .settled = t.tuner && t.tuner->settled(),
                     .step_s = t.last_s,
                     .wire_byte_s = t.settings->link.wire_byte_s,
                     .wire_latency_s = t.settings->link.wire_latency_s,
                     .steps = t.totals,
                     .tried = {}};
  if (!t.tuner) return s;
  for (const StepTuner::Tried& tried : t.tuner->history())
    s.tried.push_back(
        {setting_text(tried.setting), tried.seconds, tried.against_seconds, tried.won});
  return s;
}

}  // namespace stretto::comm
