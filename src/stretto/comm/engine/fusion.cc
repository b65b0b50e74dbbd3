#include "stretto/comm/engine/fusion.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

bool alike(const OpenOperation& a, const OpenOperation& b) {
  return a.operation.dtype == b.operation.dtype && a.operation.reduction == b.operation.reduction &&
         a.settings == b.settings;
}

}  // namespace

bool may_fuse(const OpenOperation& open, const GroupState& group, const Options& options) {
  return open.operation.kind == Kind::kAllReduce && !open.codec && !group.internal &&
         group.ranks.size() > 1 && bytes_of(open) > 0 && bytes_of(open) <= kSmallBytes &&
         options.fuse_bytes > 0;
}

size_t count_next(const Fusion& fusion, int64_t most_bytes) {
  if (fusion.waiting.empty() || fusion.under_way) return 0;
  const OpenOperation& first = *fusion.waiting.front();
  size_t count = 0;
  int64_t bytes = 0;
  for (const OpenOperation* open : fusion.waiting) {
    bytes += bytes_of(*open);
    if (open->sequence >= fusion.submitted_everywhere || bytes > most_bytes || !alike(*open, first))
      break;
    ++count;
  }
  return std::max<size_t>(count, 1);
}

std::unique_ptr<OpenOperation> join(const Fusion& fusion, size_t count) {
  const OpenOperation& first = *fusion.waiting.front();
  auto carrier = std::make_unique<OpenOperation>();
  carrier->group = first.group;
  carrier->sequence = first.sequence;
  carrier->settings = first.settings;
  carrier->submitted_s = first.submitted_s;
  carrier->operation = {.dtype = first.operation.dtype, .reduction = first.operation.reduction};
  int64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    OpenOperation* open = fusion.waiting[i];
    open->carrier = carrier.get();
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
  return carrier;
}

void split(const OpenOperation& carrier) {
  const std::byte* from = carrier.packed_output.data();
  for (OpenOperation* member : carrier.members) {
    std::memcpy(member->output, from, static_cast<size_t>(bytes_of(*member)));
    from += bytes_of(*member);
    member->carrier = nullptr;
    member->started_s = carrier.started_s;
  }
}

void note_over(Fusion& fusion, const OpenOperation& open) {
  fusion.under_way = nullptr;
  const uint64_t last = open.members.empty() ? open.sequence : open.members.back()->sequence;
  fusion.submitted_everywhere =
      std::max(fusion.submitted_everywhere,
               last + 1 + static_cast<uint64_t>(std::max(open.ahead, int32_t{0})));
}

void stop(Fusion& fusion) {
  fusion.waiting.clear();
  fusion.under_way = nullptr;
  if (fusion.carrier) fusion.stopped = std::move(fusion.carrier);
}

}  // namespace stretto::comm
