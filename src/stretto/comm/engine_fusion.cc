// Small all-reduces that wait for one another are joined to one.
//
// Ranks must join the same ones, and none knows what the others have submitted. So one small
// all-reduce of a group is under way at a time, and each of its messages says how many operations
// the ranks that it has passed have submitted beyond it, at least. The result of an all-reduce
// depends on every rank's input, so when it is done, every rank has heard of every other, and all
// know the same number: whatever has been submitted up to it everywhere goes next, as one. A lone
// operation leaves at once; nothing waits for a timer, and no message is sent for this alone.
#include <algorithm>
#include <cstring>

#include "stretto/comm/engine_impl.h"

namespace stretto::comm {
namespace {

constexpr size_t kRememberedJoins = 64;  // per group, to compare with what others send late

bool alike(const OpenOperation& a, const OpenOperation& b) {
  return a.operation.dtype == b.operation.dtype && a.operation.reduction == b.operation.reduction;
}

}  // namespace

bool EngineImpl::is_small(const GroupState& group, const OpenOperation& open) const {
  return open.operation.kind == Kind::kAllReduce && !open.codec && !group.internal &&
         group.ranks.size() > 1 && bytes_of(open) > 0 && bytes_of(open) <= kSmallBytes &&
         options_.fuse_bytes > 0;
}

void EngineImpl::start_small(GroupState& group) {
  if (group.small.empty() || group.small_under_way) return;
  size_t count = 0;
  int64_t bytes = 0;
  for (const OpenOperation* open : group.small) {
    bytes += bytes_of(*open);
    if (open->sequence >= group.submitted_everywhere || bytes > options_.fuse_bytes ||
        !alike(*open, *group.small.front()))
      break;
    ++count;
  }
  count = std::max<size_t>(count, 1);
  const OpenOperation* last = group.small[count - 1];
  OpenOperation* open = count == 1 ? group.small.front() : join(group, count);
  if (verdict_) return;
  open->ahead =
      static_cast<int32_t>(std::min<uint64_t>(group.next_sequence - 1 - last->sequence, 1 << 20));
  group.small.erase(group.small.begin(), group.small.begin() + static_cast<ptrdiff_t>(count));
  group.small_under_way = open;
  group.waiting.push_back(open);
  units_->advance(group);
}

// The first `count`, one after another in memory of their own.
OpenOperation* EngineImpl::join(GroupState& group, size_t count) {
  const OpenOperation& first = *group.small.front();
  group.carrier = std::make_unique<OpenOperation>();
  OpenOperation* carrier = group.carrier.get();
  carrier->group = first.group;
  carrier->sequence = first.sequence;
  carrier->submitted_s = first.submitted_s;
  carrier->operation = {.dtype = first.operation.dtype, .reduction = first.operation.reduction};
  int64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    OpenOperation* open = group.small[i];
    open->carrier = carrier;
    carrier->members.push_back(open);
    carrier->operation.count += open->operation.count;
    carrier->fingerprint = carrier->fingerprint * 31 + open->fingerprint;
    bytes += bytes_of(*open);
  }
  carrier->operation.name = fmt::format("{} operations in one", count);
  carrier->packed_output.resize(static_cast<size_t>(bytes));
  std::byte* to = carrier->packed_output.data();
  for (const OpenOperation* open : carrier->members) {
    std::memcpy(to, open->input, static_cast<size_t>(bytes_of(*open)));
    to += bytes_of(*open);
  }
  carrier->input = carrier->output = carrier->packed_output.data();
  const std::shared_ptr<const OperationPlan> plan = plan_of(group, carrier->operation, nullptr);
  carrier->problem = plan->problem;
  carrier->algorithm = plan->algorithm;
  carrier->whole = plan->whole;
  carrier->units = unit_count(carrier->problem);
  carrier->unit_bytes =
      carrier->problem.unit * static_cast<int64_t>(dtype_bytes(carrier->operation.dtype));
  if (!options_.order_check) return carrier;
  group.joined[first.sequence] = carrier->fingerprint;
  if (group.joined.size() > kRememberedJoins) group.joined.erase(group.joined.begin());
  const auto early = group.early_joined.find(first.sequence);
  if (early == group.early_joined.end()) return carrier;
  const auto [peer, fingerprint] = early->second;
  group.early_joined.erase(early);
  if (fingerprint != carrier->fingerprint)
    on_mismatch(peer, {.group = first.group, .sequence = first.sequence, .unit = kJoined});
  return carrier;
}

void EngineImpl::finish_small(GroupState& group, OpenOperation* open) {
  group.small_under_way = nullptr;
  const std::unique_ptr<OpenOperation> carrier = std::move(group.carrier);
  const uint64_t last = carrier ? carrier->members.back()->sequence : open->sequence;
  group.submitted_everywhere = std::max(group.submitted_everywhere,
                                        last + 1 + static_cast<uint64_t>(std::max(open->ahead, 0)));
  if (!carrier) {
    finish(open);
  } else {
    joined_operations_ += static_cast<int64_t>(carrier->members.size());
    const std::byte* from = carrier->packed_output.data();
    for (OpenOperation* member : carrier->members) {
      std::memcpy(member->output, from, static_cast<size_t>(bytes_of(*member)));
      from += bytes_of(*member);
      member->carrier = nullptr;
      member->started_s = carrier->started_s;
      finish(member);
    }
  }
  start_small(group);
}

// Somebody joins operations from this one on; the same ones are joined here, sooner or later.
void EngineImpl::check_joined(const Events::Arrival& arrival, GroupState& group) {
  const uint64_t first = arrival.key.sequence;
  const auto known = group.joined.find(first);
  if (known == group.joined.end()) {
    if (group.joined.empty() || first > group.joined.rbegin()->first)
      group.early_joined.try_emplace(first, arrival.peer, arrival.fingerprint);
  } else if (known->second != arrival.fingerprint) {
    on_mismatch(arrival.peer, arrival.key);
  }
}

}  // namespace stretto::comm
