// Fuses small all-reduces that wait for each other into one.
//
// All ranks must fuse the same operations, but no rank knows what the others have submitted. So one
// small all-reduce of a group is under way at a time. Each of its messages carries how many
// operations beyond it the ranks whose data it holds have submitted, at least. The result depends
// on every rank's input, so at its end all ranks have the same least number. All operations up to
// that number have been submitted everywhere and go next, as one. A single operation starts at
// once: there is no timer and no extra message.
#include <algorithm>
#include <cstring>

#include "stretto/comm/engine/engine_impl.h"

namespace stretto::comm {
namespace {

constexpr size_t kRememberedJoins = 64;  // per group, to compare with messages of slower ranks

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

// Copies the inputs of the first `count` operations, one after another, into one carrier.
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
  const auto [rank, fingerprint] = early->second;
  group.early_joined.erase(early);
  if (fingerprint != carrier->fingerprint)
    on_mismatch(rank, {.group = first.group, .sequence = first.sequence, .unit = kJoined});
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

// A remote rank has fused operations from this one on; this rank fuses the same ones now or later.
void EngineImpl::check_joined(const Events::Arrival& arrival, GroupState& group) {
  const uint64_t first = arrival.key.sequence;
  const auto known = group.joined.find(first);
  if (known == group.joined.end()) {
    if (group.joined.empty() || first > group.joined.rbegin()->first)
      group.early_joined.try_emplace(first, arrival.rank, arrival.fingerprint);
  } else if (known->second != arrival.fingerprint) {
    on_mismatch(arrival.rank, arrival.key);
  }
}

}  // namespace stretto::comm
