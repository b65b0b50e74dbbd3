// Starts operations.
#include <algorithm>
#include <numeric>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/inside.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {
namespace {

int64_t input_count(const Operation& op, size_t ranks) {
  if (op.kind != Kind::kReduceScatter) return op.count;
  if (op.input_counts.empty()) return op.count * static_cast<int64_t>(ranks);
  return std::accumulate(op.input_counts.begin(), op.input_counts.end(), int64_t{0});
}

bool is_message(Kind kind) { return kind == Kind::kSend || kind == Kind::kRecv; }

bool is_small(const GroupState& group, const OpenOperation& open, const Options& options) {
  return open.operation.kind == Kind::kAllReduce && !open.codec && !group.internal &&
         group.ranks.size() > 1 && bytes_of(open) > 0 && bytes_of(open) <= kSmallBytes &&
         options.fuse_bytes > 0;
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
  GroupState& state = group(id);
  check(operation, state.rank, static_cast<int>(state.ranks.size()));
  find_step(state, id, operation);
  const bool watched = delivery == Delivery::kQueue || notify;
  const std::shared_ptr<OpenOperation> open = begin(id, operation, delivery, std::move(notify));
  // A small operation is held, to be fused with those that come next, until a thread polls or
  // waits. Then many operations take one write, and wake up the remote rank once.
  const int64_t bytes = bytes_of(*open);
  const bool hold = unfinished_ > 1 && held_bytes_ + bytes <= kSmallBytes;
  held_bytes_ = hold ? held_bytes_ + bytes : 0;
  process_events(!hold);
  if (hold) links_->wake();
  // A thread that waits for a small operation will poll for it soon.
  if ((watched || bytes > kSmallBytes) && unfinished_ > 0 && !driving_) progress_wake_.notify_one();
  call_workers();
  return open->handle;
}

void EngineImpl::submit_together(Group id, std::span<const Operation> operations,
                                 std::vector<Handle>* handles) {
  Inside inside(*this);
  inside.require_open();
  GroupState& state = group(id);
  for (const Operation& operation : operations) {
    if (is_message(operation.kind))
      throw_invalid("submit_together: send and recv are not collectives");
    check(operation, state.rank, static_cast<int>(state.ranks.size()));
  }
  // Operations are not fused across the end of a step, because settings may change there. All ranks
  // find the ends at the same operations.
  std::vector<OpenOperation*> of_step;
  const auto count_followers = [&] {
    int32_t followers = 0;
    for (auto open = of_step.rbegin(); open != of_step.rend(); ++open)
      (*open)->followers = followers++;
    of_step.clear();
  };
  const auto start = [&] {
    count_followers();
    state.fusion.gathering = false;
    if (!ending_->has_begun()) start_small(state);
    held_bytes_ = 0;
    process_events();
    // Nobody may wait for them yet.
    if (unfinished_ > 0 && !driving_) progress_wake_.notify_one();
    call_workers();
  };
  state.fusion.gathering = true;
  try {
    for (const Operation& operation : operations) {
      if (find_step(state, id, operation)) count_followers();
      const std::shared_ptr<OpenOperation> open = begin(id, operation, Delivery::kWait);
      handles->push_back(open->handle);
      of_step.push_back(open.get());
    }
  } catch (...) {
    start();
    throw;
  }
  start();
}

// Looks for the end of a training step before an operation; true where one may be.
bool EngineImpl::find_step(GroupState& state, Group id, const Operation& operation) {
  if (!state.tuning || ending_->has_begun() || is_message(operation.kind)) return false;
  // Other kinds are not tuned, and their counts may differ between ranks.
  const int64_t bytes = operation.kind == Kind::kAllReduce
                            ? operation.count * static_cast<int64_t>(dtype_bytes(operation.dtype))
                            : 0;
  const StepFinder::Event event = state.tuning->finder.operation(fingerprint(operation), bytes);
  mark(state, id, event);
  return event != StepFinder::Event::kNothing;
}

std::shared_ptr<OpenOperation> EngineImpl::begin(Group id, const Operation& operation,
                                                 Delivery delivery, std::function<void()> notify) {
  GroupState& state = group(id);
  auto open = std::make_shared<OpenOperation>();
  open->handle = next_handle_++;
  open->group = id;
  open->delivery = delivery;
  open->operation = operation;
  open->submitted_s = now_s();
  open->notify = std::move(notify);
  if (state.tuning) note_submitted(*state.tuning, *open);
  operations_.emplace(open->handle, open);
  if (!state.internal) flight_.submitted(*open);
  ++unfinished_;
  unfinished_internal_ += state.internal;
  ++state.open;
  if (ending_->has_begun()) {
    open->error = ending_->error();
    if (open->error) finish(open.get());
    return open;  // otherwise it ends when the ranks have agreed on the reason
  }
  pack(open.get(), state.rank, static_cast<int>(state.ranks.size()));
  try {
    if (is_message(operation.kind)) {
      begin_message(state, open.get());
    } else if (!state.held.empty()) {
      state.held.push_back({open.get(), {}});
    } else {
      begin_collective(state, open.get());
    }
  } catch (...) {  // a forced algorithm does not fit: the operation has not begun
    operations_.erase(open->handle);
    --unfinished_;
    unfinished_internal_ -= state.internal;
    --state.open;
    throw;
  }
  return open;
}

// Codecs that need several operations are for gradients (comm/gradient/gradients.h).
void EngineImpl::choose_codec(OpenOperation& open) {
  Operation& op = open.operation;
  if (op.codec.empty() && !find_gradient_codec(options_.codec).staged) op.codec = options_.codec;
  const bool coded = !op.codec.empty() && op.codec != "none" && op.kind == Kind::kAllReduce &&
                     op.dtype == DType::kFloat32 &&
                     (op.reduction == ReduceOp::kSum || op.reduction == ReduceOp::kAverage);
  if (!coded) op.codec.clear();
  open.codec = coded ? &find_codec(op.codec) : nullptr;
  if (coded && open.codec->feedback && !op.residual && !op.name.empty()) {
    std::vector<float>& kept = residuals_[{open.group, op.name, op.count}];
    kept.resize(static_cast<size_t>(op.count));
    op.residual = kept.data();
  }
}

void EngineImpl::begin_collective(GroupState& state, OpenOperation* open) {
  choose_codec(*open);
  const Operation& op = open->operation;
  if (state.tuning) open->settings = state.tuning->settings;
  use_plan(*open, plan_of(state, op, open->codec, open->settings.get(), options_));
  open->sequence = state.next_sequence++;
  open->fingerprint = options_.order_check ? fingerprint(op) : 0;
  // Ranks that cut the operation differently would wait for each other for ever.
  if (open->fingerprint != 0 && open->settings)
    open->fingerprint += open->settings->generation << 1;
  if (options_.nan_check != NanCheck::kOff && !op.scanned && reduces(op.kind) && is_float(op.dtype))
    scan_input(state, open);
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
    use_plan(*open, plan_of(state, open->operation, nullptr, open->settings.get(), options_));
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

// Searches the input before it is sent. Large all-reduces are searched unit by unit (units.cc), so
// that sending begins at once and the data are still in the cache.
void EngineImpl::scan_input(const GroupState& state, OpenOperation* open) {
  const Operation& op = open->operation;
  open->scans = op.kind == Kind::kAllReduce && open->units > 1;
  if (open->scans) return;
  const NonFinite found =
      scan_non_finite(usable_isa(), op.dtype, open->input, input_count(op, state.ranks.size()));
  if (found.count == 0) return;
  open->non_finite = found.count;
  open->first_non_finite = found.first;
  if (options_.nan_check == NanCheck::kStop) stop_for_non_finite(*open);
}

void EngineImpl::stop_for_non_finite(const OpenOperation& open) {
  fail(membership_.rank, "",
       fmt::format("rank {}: {} has {} values that are not finite, the first at {}",
                   membership_.rank, describe(open.operation), open.non_finite,
                   open.first_non_finite));
}

}  // namespace stretto::comm
