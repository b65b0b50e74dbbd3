// Starts operations.
#include <algorithm>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/input_search.h"
#include "stretto/comm/engine/inside.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {
namespace {

bool is_small(const GroupState& group, const OpenOperation& open, const Options& options) {
  return open.operation.kind == Kind::kAllReduce && !open.codec && !group.internal &&
         group.ranks.size() > 1 && bytes_of(open) > 0 && bytes_of(open) <= kSmallBytes &&
         options.fuse_bytes > 0;
}

// Codecs that need several operations are for gradients (comm/gradient/gradients.h).
bool is_coded(const Operation& op, const Options& options) {
  const bool own = !op.codec.empty();
  if (!own && find_gradient_codec(options.codec).staged) return false;
  return (own ? op.codec : options.codec) != "none" && op.kind == Kind::kAllReduce &&
         op.dtype == DType::kFloat32 &&
         (op.reduction == ReduceOp::kSum || op.reduction == ReduceOp::kAverage);
}

// Operations that all ranks submit together and that become one: many small messages and many
// bookkeepings less.
struct Together {
  Operation operation;
  std::vector<Piece> pieces;   // empty: it is one operation
  std::vector<size_t> places;  // in the list that was submitted
};

// Infinity for none.
double limit_s(const Operation& op, const Options& options) {
  const double limit = op.timeout_s > 0 ? op.timeout_s : options.operation_timeout_s;
  return limit > 0 ? limit : std::numeric_limits<double>::infinity();
}

Piece piece_of(Operation&& op) {
  return {.count = op.count, .input = op.input, .output = op.output, .name = std::move(op.name)};
}

// Adds an operation to the first that it fits, which all ranks find in the same way. At most `most`
// fit together.
void gather(std::vector<Together>& gathered, Operation&& op, size_t place, size_t most,
            const GroupState& group, const Options& options) {
  const auto may_join = [&](const Operation& one) {
    return one.kind == Kind::kAllReduce && !is_coded(one, options) && !one.residual &&
           !one.unseen && one.count > 0;
  };
  const auto fits = [&](const Together& together) {
    const Operation& first = together.operation;
    return first.dtype == op.dtype && first.reduction == op.reduction &&
           first.scanned == op.scanned && may_join(first) &&
           (!together.pieces.empty() || bytes_of(first) <= kSmallBytes) &&
           bytes_of(first) + bytes_of(op) <= options.fuse_bytes;
  };
  const bool joins = group.ranks.size() > 1 && bytes_of(op) <= kSmallBytes && may_join(op);
  const auto found = joins ? std::find_if(gathered.begin(), gathered.end(), fits) : gathered.end();
  if (found == gathered.end()) {
    gathered.push_back({.operation = std::move(op), .pieces = {}, .places = {place}});
    return;
  }
  Operation& whole = found->operation;
  if (found->pieces.empty()) {
    found->pieces.reserve(most);
    found->places.reserve(most);
    found->pieces.push_back(piece_of(std::move(whole)));
  }
  if (limit_s(op, options) < limit_s(whole, options)) whole.timeout_s = op.timeout_s;
  whole.input = whole.output = nullptr;
  whole.count += op.count;
  found->pieces.push_back(piece_of(std::move(op)));
  found->places.push_back(place);
}

void use_plan(OpenOperation& open, std::shared_ptr<const OperationPlan> shared) {
  const OperationPlan& plan = *shared;
  open.plan = std::move(shared);
  open.traffic = open.operation.kind == Kind::kAllReduce ? &plan.traffic : nullptr;
  open.problem = plan.problem;
  open.algorithm = plan.algorithm;
  open.whole = plan.whole;
  open.streams = plan.streams;
  open.units = unit_count(plan.problem);
  open.unit_bytes = plan.problem.unit * static_cast<int64_t>(dtype_bytes(open.operation.dtype));
}

}  // namespace

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
  or_fail([&] { process_events(!hold); });
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
    gather(gathered, std::move(operations[at]), at, operations.size(), state, options_);
  }
  begin_gathered();
  held_bytes_ = 0;
  or_fail([&] { process_events(); });
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

void EngineImpl::choose_codec(OpenOperation& open) {
  Operation& op = open.operation;
  const bool coded = is_coded(op, options_);
  if (!coded) op.codec.clear();
  if (coded && op.codec.empty()) op.codec = options_.codec;
  open.codec = coded ? &find_codec(op.codec) : nullptr;
  if (coded && open.codec->feedback && !op.residual && !op.name.empty())
    op.residual = residuals_.of(open.group, op.name, op.count);
}

// What ranks do for it, which other ranks do not know of yet.
void EngineImpl::plan(GroupState& state, OpenOperation* open) {
  choose_codec(*open);
  const Operation& op = open->operation;
  if (state.tuning) open->settings = state.tuning->settings;
  open->searches = is_searched_by_steps(*open, options_);
  use_plan(*open, plan_of(state, op, open->codec, open->settings.get(), open->searches, options_));
}

// From here on other ranks count on it.
void EngineImpl::begin_collective(GroupState& state, OpenOperation* open) {
  const Operation& op = open->operation;
  open->sequence = state.next_sequence++;
  open->fingerprint = options_.order_check ? fingerprint(op) : 0;
  if (open->fingerprint != 0)
    for (const Piece& piece : open->pieces)
      open->fingerprint = open->fingerprint * 31 + static_cast<uint64_t>(piece.count);
  // Ranks that cut the operation differently would wait for each other for ever.
  if (open->fingerprint != 0 && open->settings)
    open->fingerprint += open->settings->generation << 1;
  if (is_searched(op, options_) && search_before_begin(*open, state.ranks.size(), isa_) &&
      options_.nan_check == NanCheck::kStop)
    stop_for_non_finite(*open);
  if (ending_->has_begun()) return;
  if (options_.order_check) {
    const auto other = note_begun(state.order, open->sequence, open->fingerprint, op);
    if (other) on_mismatch(*other, {.group = open->group, .sequence = open->sequence});
  }
  if (is_small(state, *open, options_)) {
    state.fusion.waiting.push_back(open);
    start_small(state);
    return;
  }
  state.waiting.push_back(open);
  units_->advance(state);
}

void EngineImpl::begin_message(GroupState& state, OpenOperation* open) {
  if (open->operation.kind == Kind::kSend) {
    number_send(state.point_to_point, *open);
  } else if (!match_receive(state.point_to_point, *open)) {
    return;
  }
  units_->start_point_to_point(open, open->operation.peer);
}

void EngineImpl::start_small(GroupState& state) {
  Fusion& fusion = state.fusion;
  const size_t count = count_next(fusion, options_.fuse_bytes);
  if (count == 0) return;
  OpenOperation* open = fusion.waiting.front();
  const uint64_t last = fusion.waiting[count - 1]->sequence;
  if (count > 1) {
    fusion.carrier = join(fusion, count);
    open = fusion.carrier.get();
    use_plan(*open,
             plan_of(state, open->operation, nullptr, open->settings.get(), false, options_));
    if (options_.order_check) {
      const auto other = note_joined(state.order, open->sequence, open->fingerprint);
      if (other)
        on_mismatch(*other, {.group = open->group, .sequence = open->sequence, .unit = kJoined});
    }
  }
  open->ahead = static_cast<int32_t>(std::min<uint64_t>(state.next_sequence - 1 - last, 1 << 20));
  fusion.waiting.erase(fusion.waiting.begin(),
                       fusion.waiting.begin() + static_cast<ptrdiff_t>(count));
  fusion.under_way = open;
  state.waiting.push_back(open);
  units_->advance(state);
}

}  // namespace stretto::comm
