// Finds training steps, agrees on their time with the other ranks, and changes settings.
#include "stretto/comm/engine/tuning.h"

#include <algorithm>
#include <map>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"
#include "stretto/comm/engine/engine_impl.h"
#include "stretto/tune/cache_file.h"

namespace stretto::comm {
namespace {

// When tuning has settled, ranks agree only on the mean of so many steps, to find drift.
constexpr int kStepsPerReport = 8;
constexpr int kDriftReports = 8;
// An algorithm whose estimate is worse than this many times the best's is not worth a real step.
constexpr double kHopeless = 2.2;
constexpr int64_t kModelBytes = 16 << 20;  // the size for which algorithms are compared

// Ends a step. Its last operations may still be under way, so it is counted when the next one ends.
void close_account(GroupTuning* t, bool whole, double now) {
  const StepAccount& done = t->accounts[(t->number + 1) & 1];
  if (done.whole && done.open == 0) {
    StepStatistics& s = t->totals;
    ++s.steps;
    s.bytes += done.bytes;
    s.seconds += done.ended_s - done.began_s;
    s.busy_s += done.busy_s;
    s.exposed_s += std::min(done.busy_s, std::max(done.waited_s, done.done_s - done.submitted_s));
  }
  StepAccount& ended = t->accounts[t->number & 1];
  ended.whole = whole;
  ended.ended_s = now;
  ++t->number;
  t->accounts[t->number & 1] = {};
  t->accounts[t->number & 1].began_s = now;
}

}  // namespace

void EngineImpl::begin_tuning(Group id) {
  GroupState& state = group(id);
  if (state.ranks.size() == 1) return;
  state.tuning = std::make_unique<GroupTuning>();
  GroupTuning& t = *state.tuning;
  t.choices.drift_steps = kDriftReports;
  if (options_.tuning == Tuning::kFull) {
    t.choices.exhaustive = true;
    t.choices.rounds *= 2;
  }

  const Operation sample{.count = kModelBytes / 4};
  Problem problem = make_problem(sample, state, nullptr,
                                 default_unit_bytes(state, options_.chunk_bytes, kModelBytes));
  const auto seconds = [&](const Algorithm& a) {
    return estimate_s(a.cost(problem), LinkModel{}, ElementBytes{});
  };
  const double best = seconds(choose_algorithm(problem, LinkModel{}, ElementBytes{}));
  if (options_.algorithm == "auto") {
    for (const Algorithm& a : algorithms(Collective::kAllReduce)) {
      if (a.unfit(problem).empty() && seconds(a) <= kHopeless * best)
        t.choices.algorithms.emplace_back(a.name);
    }
  }
  int streams = 0;
  for (int rank : state.ranks) {
    if (rank != membership_.rank)
      streams = std::max(streams, static_cast<int>(links_->link_to(rank).streams().size()));
  }
  std::erase_if(t.choices.streams, [&](int count) { return count > streams || streams <= 1; });

  std::map<int, int> ranks_of_host;
  for (int host : state.hosts) ++ranks_of_host[host];
  t.topology = fmt::format("{} streams, {} interfaces, ranks", options_.connected_streams(),
                           std::max<size_t>(options_.interfaces.size(), 1));
  for (const auto& [host, ranks] : ranks_of_host) t.topology += fmt::format(" {}", ranks);
}

void EngineImpl::step(Group id) {
  Lock lock(mutex_);
  GroupState& state = group(id);
  if (!state.tuning || verdict_) return;
  on_step(lock, id, state.tuning->finder.step());
}

// Called before an operation is submitted, on all members before the same one.
void EngineImpl::note_operation(Lock& lock, Group id, const Operation& op) {
  GroupState& state = group(id);
  if (!state.tuning || verdict_ || op.kind == Kind::kSend || op.kind == Kind::kRecv) return;
  // Other kinds are not tuned, and their counts may differ between ranks.
  const int64_t bytes =
      op.kind == Kind::kAllReduce ? op.count * static_cast<int64_t>(dtype_bytes(op.dtype)) : 0;
  on_step(lock, id, state.tuning->finder.operation(fingerprint(op), bytes));
}

void EngineImpl::on_step(Lock& lock, Group id, StepFinder::Event event) {
  if (event == StepFinder::Event::kNothing) return;
  GroupTuning& t = *group(id).tuning;
  const double now = now_s(), seconds = now - std::exchange(t.began_s, now);
  close_account(&t, event == StepFinder::Event::kStep, now);
  if (event == StepFinder::Event::kOther || options_.tuning == Tuning::kOff) return;
  finish_agreement(lock, id);
  if (verdict_) return;
  if (event == StepFinder::Event::kModel) {
    t.key = setting_key(t.finder.model(), t.topology);
    t.tuner.reset();
    t.recalled = false;
    t.sum_s = t.steps = 0;
    apply(group(id), default_setting(group(id)));
    ask_tuning_cache(id);
    return;
  }
  if (!t.tuner) return;
  t.sum_s += seconds;
  if (++t.steps < (t.tuner->settled() ? kStepsPerReport : 1)) return;
  t.words = {t.sum_s / t.steps};
  t.sum_s = t.steps = 0;
  start_agreement(id, GroupTuning::Asks::kTime);
}

void EngineImpl::note_submitted(GroupState& group, OpenOperation* open) {
  if (!group.tuning) return;
  GroupTuning& t = *group.tuning;
  StepAccount& a = t.accounts[t.number & 1];
  const Operation& op = open->operation;
  open->step = t.number;
  ++a.open;
  a.submitted_s = open->submitted_s;
  if (op.kind == Kind::kAllReduce)
    a.bytes += op.count * static_cast<int64_t>(dtype_bytes(op.dtype));
}

void EngineImpl::note_wait(const OpenOperation& open, double seconds) {
  const auto found = groups_.find(open.group);  // it may have been removed since
  if (found == groups_.end() || !found->second->tuning) return;
  GroupTuning& t = *found->second->tuning;
  if (open.step >= t.number - 1) t.accounts[open.step & 1].waited_s += seconds;
}

void EngineImpl::note_done(const OpenOperation& open) {
  const GroupState& state = *groups_.at(open.group);
  if (!state.tuning || open.step < state.tuning->number - 1) return;
  StepAccount& a = state.tuning->accounts[open.step & 1];
  const double now = now_s();
  --a.open;
  if (open.started_s > 0) a.busy_s += now - std::max(open.started_s, a.done_s);
  a.done_s = now;
}

StepSetting EngineImpl::default_setting(const GroupState& state) const {
  return {.unit_bytes = default_unit_bytes(state, options_.chunk_bytes, kModelBytes),
          .streams = options_.streams,
          .algorithm = ""};
}

// The first rank of the group reads the tuning cache and sends it to the others, whose files may
// differ.
void EngineImpl::ask_tuning_cache(Group id) {
  GroupState& state = group(id);
  GroupTuning& t = *state.tuning;
  t.words = {};
  if (state.rank == 0 && options_.tuning != Tuning::kFull) {
    const tune::TuningCache cache =
        tune::load_tuning_cache(tune::tuning_cache_path(options_.tuning_cache));
    const auto choice = cache.find(t.key);
    const auto setting = choice ? parse_setting(choice->candidate) : std::nullopt;
    if (setting) {
      const auto& names = t.choices.algorithms;
      const auto name = std::find(names.begin(), names.end(), setting->algorithm);
      t.words = {choice->seconds, static_cast<double>(setting->unit_bytes),
                 static_cast<double>(setting->streams),
                 name == names.end() ? 0.0 : 1.0 + static_cast<double>(name - names.begin()), 1};
    }
  }
  start_agreement(id, GroupTuning::Asks::kCache);
}

// Starts an all-reduce of the greatest words, in a group of its own, so that the order of the
// caller's operations does not change.
void EngineImpl::start_agreement(Group id, GroupTuning::Asks asks) {
  GroupState& state = group(id);
  GroupTuning& t = *state.tuning;
  if (t.channel == 0) {
    t.channel = group_number(state.name + "/steps", state.ranks);
    insert_group(t.channel, state.name + "/steps", state.ranks);
    groups_[t.channel]->internal = true;
    for (const Events::Arrival& arrival : std::exchange(early_arrivals_[t.channel], {}))
      on_arrival(arrival);
    early_arrivals_.erase(t.channel);
  }
  t.asks = asks;
  t.handle = begin(t.channel,
                   {.dtype = DType::kFloat64,
                    .reduction = ReduceOp::kMax,
                    .count = static_cast<int64_t>(t.words.size()),
                    .input = t.words.data(),
                    .output = t.words.data(),
                    .name = "steps"},
                   Delivery::kWait)
                 ->handle;
}

void EngineImpl::finish_agreement(Lock& lock, Group id) {
  GroupTuning& t = *group(id).tuning;
  if (t.asks == GroupTuning::Asks::kNothing) return;
  // A rank may be late by hours, when somebody debugs it: the caller must be able to give up.
  while (!await(lock, operations_.at(t.handle).get(), kInterruptible_s)) {
    lock.unlock();  // what is called may need a lock whose holder waits for this one
    check_interrupt();
    lock.lock();
  }
  operations_.erase(t.handle);
  const GroupTuning::Asks asks = std::exchange(t.asks, GroupTuning::Asks::kNothing);
  if (verdict_) return;
  GroupState& state = group(id);
  if (asks == GroupTuning::Asks::kCache) {
    StepSetting start = default_setting(state);
    t.recalled = t.words[4] > 0;
    if (t.recalled) {
      start = {.unit_bytes = static_cast<int64_t>(t.words[1]),
               .streams = static_cast<int>(t.words[2]),
               .algorithm = ""};
      const auto name = static_cast<size_t>(t.words[3]);
      if (name > 0 && name <= t.choices.algorithms.size())
        start.algorithm = t.choices.algorithms[name - 1];
    }
    t.tuner = std::make_unique<StepTuner>(t.choices, start, t.recalled ? t.words[0] : 0);
    apply(state, t.tuner->current());
    return;
  }
  if (!t.tuner) return;
  t.last_s = t.words[0];
  const bool was_settled = t.tuner->settled();
  if (t.tuner->step(t.last_s)) apply(state, t.tuner->current());
  if (t.tuner->settled() && !was_settled && state.rank == 0) remember(lock, t);
}

// Changes the setting for the next operations.
void EngineImpl::apply(GroupState& state, const StepSetting& setting) {
  GroupTuning& t = *state.tuning;
  if (setting == t.setting) return;
  t.setting = setting;
  ++t.generation;
  state.plans.clear();
  for (int rank : state.ranks) {
    if (rank != membership_.rank) links_->use_streams(rank, setting.streams);
  }
}

void EngineImpl::remember(Lock& lock, const GroupTuning& t) {
  tune::TuningCache found;
  remember_setting(found, t.key, *t.tuner);
  lock.unlock();
  tune::add_to_tuning_cache(tune::tuning_cache_path(options_.tuning_cache), found);
  lock.lock();
}

TuningStatistics EngineImpl::tuning_statistics(const GroupState& state) const {
  const GroupTuning& t = *state.tuning;
  TuningStatistics s{.group = state.name,
                     .model = t.finder.model(),
                     .setting = setting_text(t.setting),
                     .recalled = t.recalled,
                     .settled = t.tuner && t.tuner->settled(),
                     .step_s = t.last_s,
                     .steps = t.totals,
                     .tried = {}};
  if (!t.tuner) return s;
  for (const StepTuner::Tried& tried : t.tuner->history())
    s.tried.push_back(
        {setting_text(tried.setting), tried.seconds, tried.against_seconds, tried.won});
  return s;
}

}  // namespace stretto::comm
