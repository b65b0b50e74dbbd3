// Takes operations from callers.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/input_search.h"
#include "stretto/comm/engine/inside.h"
#include "stretto/comm/engine/together.h"

namespace stretto::comm {

Handle EngineImpl::submit(Group id, const Operation& operation, Delivery delivery,
                          std::function<void()> notify) {
  Inside inside(*this);
  inside.require_open();
  GroupState* known = &groups_.at(id);
  check(operation, known->rank, static_cast<int>(known->ranks.size()));
  std::optional<NonFinite> found;
  if (const size_t ranks = known->ranks.size(); is_searched_ahead(operation, ranks, options_)) {
    inside.lock.unlock();
    found = search_input(operation, ranks, isa_);
    inside.lock.lock();
    inside.require_open();
    known = &groups_.at(id);
  }
  GroupState& state = *known;
  mark(state, id, find_step(state, operation));
  const bool watched = delivery == Delivery::kQueue || notify;
  const std::shared_ptr<OpenOperation> open =
      begin(id, operation, delivery, std::move(notify), {}, found);
  // A small operation is held, to be fused with those that come next, until a thread polls or
  // waits. Then many operations take one write, and wake up the remote rank once.
  const int64_t bytes = bytes_of(*open);
  const bool hold = operations_.unfinished() > 1 && held_bytes_ + bytes <= kSmallBytes;
  held_bytes_ = hold ? held_bytes_ + bytes : 0;
  or_fail([&] { process_events(hold ? Flush::kNone : Flush::kOnce); });
  if (hold) links_->wake();
  // A thread that waits for a small operation will poll for it soon.
  if ((watched || (bytes > kSmallBytes && !operation.blocking)) && operations_.unfinished() > 0)
    wake(polling_.on_begun());
  if (!operation.blocking || polling_.under_way())
    wake(polling_.on_local_steps(units_->local_waiting()));
  return open->handle;
}

void EngineImpl::submit_together(Group id, std::vector<Operation>&& operations,
                                 std::vector<Handle>* handles) {
  Inside inside(*this);
  inside.require_open();
  GroupState* known = &groups_.at(id);
  const size_t ranks = known->ranks.size();
  handles->clear();
  std::vector<std::optional<NonFinite>> found(operations.size());
  const auto search_ahead = [&](const Operation& operation) {
    return is_searched_ahead(operation, ranks, options_);
  };
  for (const Operation& operation : operations) {
    if (is_message(operation.kind))
      throw_invalid("submit_together: send and recv are not collectives");
    check(operation, known->rank, static_cast<int>(ranks));
  }
  if (std::any_of(operations.begin(), operations.end(), search_ahead)) {
    inside.lock.unlock();
    for (size_t at = 0; at < operations.size(); ++at)
      if (search_ahead(operations[at])) found[at] = search_input(operations[at], ranks, isa_);
    inside.lock.lock();
    inside.require_open();
    known = &groups_.at(id);
  }
  GroupState& state = *known;
  handles->assign(operations.size(), kNoHandle);
  std::vector<Together> gathered;
  std::exception_ptr error;
  const auto begin_gathered = [&] {
    for (Together& together : gathered) {
      if (!together.pieces.empty())
        together.operation.name = fmt::format("{} operations in one", together.pieces.size());
      try {
        const Handle handle = begin(id, std::move(together.operation), Delivery::kWait, nullptr,
                                    std::move(together.pieces), found[together.places.front()])
                                  ->handle;
        for (const size_t at : together.places) (*handles)[at] = handle;
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    gathered.clear();
  };
  for (size_t at = 0; at < operations.size(); ++at) {
    // Operations are not joined across the end of a step, because settings may change there. All
    // ranks find the ends at the same operations.
    const StepFinder::Event event = find_step(state, operations[at]);
    if (event != StepFinder::Event::kNothing) {
      begin_gathered();
      mark(state, id, event);
    }
    gather(gathered, std::move(operations[at]), at, operations.size(), ranks, options_);
  }
  begin_gathered();
  held_bytes_ = 0;
  or_fail([&] { process_events(Flush::kAll); });
  // Nobody may wait for them yet.
  if (operations_.unfinished() > 0) wake(polling_.on_begun());
  wake(polling_.on_local_steps(units_->local_waiting()));
  if (error) std::rethrow_exception(error);
}

std::shared_ptr<OpenOperation> EngineImpl::begin(Group id, Operation operation, Delivery delivery,
                                                 std::function<void()> notify,
                                                 std::vector<Piece> pieces,
                                                 std::optional<NonFinite> found) {
  GroupState& state = groups_.at(id);
  auto open = std::make_shared<OpenOperation>();
  open->group = id;
  open->delivery = delivery;
  open->operation = std::move(operation);
  open->pieces = std::move(pieces);
  open->found_ahead = found;
  open->submitted_s = now_s();
  open->notify = std::move(notify);
  if (!ending_->has_begun()) pack(open.get(), state.rank, static_cast<int>(state.ranks.size()));
  operations_.add(open, state.internal);
  ++state.open;
  const bool over = ending_->has_begun(), message = is_message(open->operation.kind);
  const bool held = !over && !message && state.tuning && holds(*state.tuning);
  try {
    if (state.tuning) note_submitted(*state.tuning, *open);
    if (!state.internal) flight_.submitted(*open);
    if (held) {
      hold(*state.tuning, open.get());
    } else if (!over && !message) {
      plan(state, open.get());
    }
  } catch (...) {  // a forced algorithm does not fit: the operation has not begun
    if (state.tuning) note_withdrawn(*state.tuning, *open);
    operations_.withdraw(*open, state.internal);
    --state.open;
    throw;
  }
  if (over) {
    open->error = ending_->error();
    if (open->error) finish(open.get());  // otherwise when the ranks have agreed on the reason
  } else if (message) {
    or_fail([&] { begin_message(state, open.get()); });
  } else if (!held) {
    or_fail([&] { begin_collective(state, open.get()); });
  }
  return open;
}

}  // namespace stretto::comm
