// Changes settings between the steps of a group (step_tuning.h).
#include <algorithm>

#include "stretto/comm/engine/inside.h"

namespace stretto::comm {

void EngineImpl::begin_tuning(GroupState& state) {
  if (state.ranks.size() == 1) return;
  int streams = 0;
  for (int rank : state.ranks) {
    if (rank != membership_.rank) streams = std::max(streams, links_->most_streams(rank));
  }
  state.tuning = make_step_tuning(state, options_, streams);
  if (tells_cache(state.rank, state.ranks.size(), options_)) state.tuning->cache = cache_;
  for (const auto& [id, other] : groups_.all()) {
    if (other.get() != &state && other->tuning && other->ranks == state.ranks)
      state.tuning->observer = other->tuning->observer;
  }
}

GroupLinks EngineImpl::link_model(Group id) {
  Inside inside(*this);
  const GroupState* state = &groups_.at(id);
  if (!state->tuning) return group_links(state->placement, {}, options_.chunk_bytes);
  if (options_.tuning == Tuning::kQuick && !state->tuning->read_cache) {
    const std::string topology = state->tuning->topology;
    inside.lock.unlock();
    const LinkCosts found = cached_costs(topology, options_);
    inside.lock.lock();
    state = &groups_.at(id);
    state->tuning->cached_costs = found;
    state->tuning->read_cache = true;
  }
  const Placement placement = state->placement;
  const LinkCosts known = known_costs(*state->tuning);
  inside.lock.unlock();
  return group_links(placement, known, options_.chunk_bytes);
}

void EngineImpl::step(Group id) {
  Inside inside(*this);
  inside.require_open();
  GroupState& state = groups_.at(id);
  if (!state.tuning || ending_->has_begun()) return;
  mark(state, id, state.tuning->finder.step());
  or_fail([&] { process_events(Flush::kAll); });
  wake(polling_.on_local_steps(units_->local_waiting()));
}

// What an operation that is submitted says of the group's training steps.
StepFinder::Event EngineImpl::find_step(GroupState& state, const Operation& operation) {
  if (!state.tuning || ending_->has_begun() || is_message(operation.kind))
    return StepFinder::Event::kNothing;
  return comm::find_step(*state.tuning, operation);
}

// Notes an event in the order of submission, on all members before the same operation. What it
// causes waits until the members have agreed on the step before; so do the operations after it.
void EngineImpl::mark(GroupState& state, Group id, StepFinder::Event event) {
  if (event == StepFinder::Event::kNothing) return;
  StepMark mark = mark_step(*state.tuning, event, options_);
  if (mark.event == StepFinder::Event::kNothing || hold(*state.tuning, std::move(mark))) return;
  pass_mark(state, id, mark);
}

void EngineImpl::pass_mark(GroupState& state, Group id, const StepMark& mark) {
  StepTuning& tuning = *state.tuning;
  StepEnd end = end_step(tuning, state, options_, mark);
  if (end.changed) {
    state.plans.clear();
    links_->on_new_settings();
  }
  if (end.remember) errands_.push_back(std::move(end.remember));
  if (!end.asks) return;
  // In a group of its own, so that the order of the caller's operations does not change.
  if (tuning.channel == 0) {
    const std::string name = state.name + "/steps";
    tuning.channel = group_number(name, state.ranks, state.life);
    GroupState& channel = make_group(tuning.channel, name, state.ranks);
    channel.internal = true;
    channel.serves = id;
  }
  begin(tuning.channel,
        {.dtype = DType::kFloat64,
         .reduction = ReduceOp::kMax,
         .count = static_cast<int64_t>(tuning.words.size()),
         .input = tuning.words.data(),
         .output = tuning.words.data(),
         .name = "steps"},
        Delivery::kWait);
}

// The members of a group have agreed, in its channel.
void EngineImpl::on_agreed(Group id) {
  GroupState* state = groups_.find(id);
  if (!state) return;
  state->tuning->agreed = true;
  release_held(*state, id);
}

void EngineImpl::release_held(GroupState& state, Group id) {
  while (!ending_->has_begun()) {
    const std::optional<Held> held = take_held(*state.tuning);
    if (!held) return;
    if (!held->open) {
      pass_mark(state, id, held->mark);
      continue;
    }
    or_fail([&] {  // its caller has gone on
      plan(state, held->open);
      begin_collective(state, held->open);
    });
  }
}

}  // namespace stretto::comm
