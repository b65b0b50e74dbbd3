// Makes groups and starts operations.
#include <algorithm>
#include <numeric>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/engine_impl.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {
namespace {

constexpr size_t kMaxPlans = 1024;       // kept per group
constexpr size_t kPastOperations = 256;  // remembered per group for mismatch reports

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

int64_t input_count(const Operation& op, size_t ranks) {
  if (op.kind != Kind::kReduceScatter) return op.count;
  if (op.input_counts.empty()) return op.count * static_cast<int64_t>(ranks);
  return std::accumulate(op.input_counts.begin(), op.input_counts.end(), int64_t{0});
}

}  // namespace

void EngineImpl::insert_group(Group id, std::string name, std::vector<int> ranks) {
  auto state = std::make_unique<GroupState>();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || rank >= membership_.size)
      throw_invalid("group '{}': rank {} does not exist in a job of {} ranks", name, rank,
                    membership_.size);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1)
      throw_invalid("group '{}': rank {} is listed twice", name, rank);
    if (rank == membership_.rank) state->rank = static_cast<int>(i);
    for (size_t host = 0; host < hosts_.size(); ++host) {
      if (std::find(hosts_[host].begin(), hosts_[host].end(), rank) != hosts_[host].end())
        state->hosts.push_back(static_cast<int>(host));
    }
  }
  if (std::find(ranks.begin(), ranks.end(), membership_.rank) == ranks.end())
    throw_invalid("group '{}': this rank, {}, is not a member; only members make a group", name,
                  membership_.rank);
  state->name = std::move(name);
  state->ranks = std::move(ranks);
  groups_[id] = std::move(state);
}

Group EngineImpl::add_group(std::string_view name, std::vector<int> ranks) {
  Lock lock(mutex_);
  const Group id = group_number(name, ranks);
  if (id == kWorld || groups_.contains(id))
    throw_invalid("group '{}': these ranks have a group of this name already", name);
  insert_group(id, std::string(name), std::move(ranks));
  for (const Events::Arrival& arrival : std::exchange(early_arrivals_[id], {})) on_arrival(arrival);
  early_arrivals_.erase(id);
  begin_tuning(id);
  return id;
}

void EngineImpl::remove_group(Group id) {
  Lock lock(mutex_);
  if (id == kWorld) throw_invalid("remove_group: the group of all ranks cannot be removed");
  group(id);
  for (const auto& [handle, open] : operations_) {
    if (open->group == id && !open->done)
      throw_invalid("remove_group: '{}' still has an operation: {}; wait for it first",
                    groups_[id]->name, describe(open->operation));
  }
  if (groups_[id]->tuning) retired_.push_back(std::move(groups_[id]->tuning));
  groups_.erase(id);
}

GroupState& EngineImpl::group(Group id) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) throw_invalid("group {} does not exist or was removed", id);
  return *found->second;
}

Handle EngineImpl::submit(Group id, const Operation& operation, Delivery delivery,
                          std::function<void()> notify) {
  check_process();
  Lock lock(mutex_);
  const GroupState& state = group(id);
  check(operation, state.rank, static_cast<int>(state.ranks.size()));
  note_operation(lock, id, operation);
  return begin(id, operation, delivery, std::move(notify))->handle;
}

OpenOperation* EngineImpl::begin(Group id, const Operation& operation, Delivery delivery,
                                 std::function<void()> notify) {
  GroupState& state = group(id);
  const bool watched = delivery == Delivery::kQueue || notify;
  auto owned = std::make_unique<OpenOperation>();
  OpenOperation* open = owned.get();
  open->handle = next_handle_++;
  open->group = id;
  open->delivery = delivery;
  open->operation = operation;
  open->submitted_s = now_s();
  open->notify = std::move(notify);
  note_submitted(state, open);
  operations_.emplace(open->handle, std::move(owned));
  ++unfinished_;
  if (verdict_) {
    open->error = failure_;
    if (failure_) finish(open);
    return open;  // otherwise it ends when the ranks have agreed on the reason
  }
  pack(open, state.rank, static_cast<int>(state.ranks.size()));
  try {
    switch (operation.kind) {
      case Kind::kSend:
        submit_send(state, open);
        break;
      case Kind::kRecv:
        submit_receive(state, open);
        break;
      default:
        submit_collective(state, open);
    }
  } catch (...) {  // a forced algorithm does not fit: the operation has not begun
    operations_.erase(open->handle);
    --unfinished_;
    throw;
  }
  // A small operation is held, to be fused with those that come next, until a thread polls or
  // waits. Then many operations take one write, and wake up the remote rank once.
  const int64_t bytes = bytes_of(*open);
  const bool hold = unfinished_ > 1 && held_bytes_ + bytes <= kSmallBytes;
  held_bytes_ = hold ? held_bytes_ + bytes : 0;
  process_events(!hold);
  if (hold) links_->wake();
  // A thread that waits for a small operation will poll for it soon.
  if ((watched || bytes > kSmallBytes) && unfinished_ > 0 && !driving_) progress_wake_.notify_one();
  return open;
}

void EngineImpl::submit_collective(GroupState& state, OpenOperation* open) {
  Operation& op = open->operation;
  // Codecs that need several operations are for gradients (comm/gradient/gradients.h).
  if (op.codec.empty() && !find_gradient_codec(options_.codec).staged) op.codec = options_.codec;
  const bool coded = !op.codec.empty() && op.codec != "none" && op.kind == Kind::kAllReduce &&
                     op.dtype == DType::kFloat32 &&
                     (op.reduction == ReduceOp::kSum || op.reduction == ReduceOp::kAverage);
  if (!coded) op.codec.clear();
  open->codec = coded ? &find_codec(op.codec) : nullptr;
  if (coded && open->codec->feedback && !op.residual && !op.name.empty()) {
    std::vector<float>& kept = residuals_[{open->group, op.name, op.count}];
    kept.resize(static_cast<size_t>(op.count));
    op.residual = kept.data();
  }
  const std::shared_ptr<const OperationPlan> plan = plan_of(state, op, open->codec);
  open->problem = plan->problem;
  open->algorithm = plan->algorithm;
  open->whole = plan->whole;
  open->sequence = state.next_sequence++;
  open->fingerprint = options_.order_check ? fingerprint(op) : 0;
  // Ranks that cut the operation differently would wait for each other for ever.
  if (open->fingerprint != 0 && state.tuning) open->fingerprint += state.tuning->generation << 1;
  open->units = unit_count(open->problem);
  open->unit_bytes = open->problem.unit * static_cast<int64_t>(dtype_bytes(op.dtype));
  if (options_.nan_check != NanCheck::kOff && !op.scanned && reduces(op.kind) && is_float(op.dtype))
    scan_input(open, state.ranks.size());
  if (verdict_) return;
  if (options_.order_check) check_order(state, *open);
  if (is_small(state, *open)) {
    state.small.push_back(open);
    start_small(state);
    return;
  }
  state.waiting.push_back(open);
  units_->advance(state);
}

// Plans are kept because training repeats the same operations, and choosing an algorithm and making
// its schedule takes longer than a small operation.
std::shared_ptr<const OperationPlan> EngineImpl::plan_of(GroupState& state, const Operation& op,
                                                         const Codec* codec) {
  const bool even = op.input_counts.empty() && op.output_counts.empty();
  const GroupState::PlanKey key{op.kind, op.dtype, op.reduction, op.root, op.count, codec};
  if (even) {
    if (const auto found = state.plans.find(key); found != state.plans.end()) return found->second;
  }
  auto plan = std::make_shared<OperationPlan>();
  const auto element =
      static_cast<double>(std::max<int64_t>(static_cast<int64_t>(dtype_bytes(op.dtype)), 1));
  // The result of a codec may depend on units and algorithm, so operations with one are not tuned.
  const bool tuned = state.tuning && state.tuning->tuner && op.kind == Kind::kAllReduce && !codec &&
                     static_cast<double>(op.count) * element >= kTunedBytes;
  // For other kinds the count may differ between ranks, but all ranks must cut alike.
  const int64_t bytes =
      op.kind == Kind::kAllReduce ? op.count * static_cast<int64_t>(dtype_bytes(op.dtype)) : 0;
  plan->problem = make_problem(op, state, codec,
                               tuned ? state.tuning->setting.unit_bytes
                                     : default_unit_bytes(state, options_.chunk_bytes, bytes));
  ElementBytes sizes{.local = element, .wire = element};
  if (codec)
    sizes.wire =
        static_cast<double>(codec->encoded_bytes(codec->block)) / static_cast<double>(codec->block);
  std::string_view forced = options_.algorithm != "auto" && op.kind == Kind::kAllReduce
                                ? std::string_view(options_.algorithm)
                                : "";
  if (tuned && forced.empty()) forced = state.tuning->setting.algorithm;
  // With one message to each rank, a rank may leave right after it without being missed.
  if (state.internal) forced = "gather_sum";
  plan->algorithm = !forced.empty() ? &find_algorithm(plan->problem, forced)
                                    : &choose_algorithm(plan->problem, LinkModel{}, sizes);
  if (unit_count(plan->problem) == 1)
    plan->whole = std::make_shared<UnitPlan>(plan->algorithm->schedule(plan->problem, 0));
  if (!even) return plan;
  if (state.plans.size() == kMaxPlans) state.plans.clear();
  return state.plans[key] = plan;
}

// Searches the input before it is sent. Large all-reduces are searched unit by unit
// (units.cc), so that sending begins at once and the data are still in the cache.
void EngineImpl::scan_input(OpenOperation* open, size_t ranks) {
  const Operation& op = open->operation;
  open->scans = op.kind == Kind::kAllReduce && open->units > 1;
  if (open->scans) return;
  const NonFinite found =
      scan_non_finite(usable_isa(), op.dtype, open->input, input_count(op, ranks));
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

// Compares the operation with what other ranks have already sent for this sequence number, and
// keeps it for comparison with what they send later.
void EngineImpl::check_order(GroupState& state, const OpenOperation& open) {
  const Operation& op = open.operation;
  state.past.push_back({open.sequence, open.fingerprint,
                        Operation{.kind = op.kind,
                                  .dtype = op.dtype,
                                  .reduction = op.reduction,
                                  .root = op.root,
                                  .count = op.count,
                                  .codec = op.codec,
                                  .name = op.name}});
  if (state.past.size() > kPastOperations) state.past.pop_front();
  const auto early = state.early.find(open.sequence);
  if (early == state.early.end()) return;
  const auto [rank, fingerprint] = early->second;
  state.early.erase(early);
  if (fingerprint != open.fingerprint)
    on_mismatch(rank, {.group = open.group, .sequence = open.sequence});
}

void EngineImpl::submit_send(GroupState& state, OpenOperation* open) {
  const int peer = open->operation.peer;
  open->sequence = state.sends[{peer, open->operation.tag}]++;
  units_->start_point_to_point(open, peer);
}

void EngineImpl::submit_receive(GroupState& state, OpenOperation* open) {
  const uint32_t tag = open->operation.tag;
  int peer = open->operation.peer;
  if (peer == kAnyPeer) {
    for (const auto& [from, begun] : state.begun) {
      if (from.second == tag && begun > state.receives[from]) peer = from.first;
    }
    if (peer == kAnyPeer) {
      state.any_receives.push_back(open);
      return;
    }
    open->operation.peer = peer;
  }
  open->sequence = state.receives[{peer, tag}]++;
  units_->start_point_to_point(open, peer);
}

}  // namespace stretto::comm
