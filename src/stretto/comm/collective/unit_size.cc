#include "stretto/comm/collective/unit_size.h"

#include <algorithm>
#include <cmath>

namespace stretto::comm {
namespace {

// Larger units cost less per byte, but several must be under way to send and add at the same time,
// and their memory must stay in the cache: from kRoomyBytes on only larger parts help, up to
// kMostBytes only those of a size that a chunk has, and then only those of kLeastPart.
constexpr int64_t kRoomyBytes = 2 << 20, kMostBytes = 4 << 20, kLeastPart = 16 << 10;
// Two units of two parts take a tenth longer than one of four, where no network is the limit. With
// a codec a part is encoded before it is sent, so smaller units are better.
constexpr int64_t kFewParts = 4;
constexpr int64_t kUnitsPerOperation = 8;

// The chunk times the ratio in which the link carries more bytes in the time of its latency than
// the default link does: a chunk then takes as many latencies. In powers of two, so that costs that
// are measured a little differently give the same units, and only while units stay roomy: larger
// ones leave the cache, which costs more than the messages that they save.
int64_t least_part(const Problem& p, int64_t chunk_bytes, const LinkModel& link) {
  const auto bytes_of_latency = [&](const LinkModel& m) {
    return p.host.hosts().count() == 1 ? m.local_latency_s / m.local_byte_s
                                       : m.wire_latency_s / m.wire_byte_s;
  };
  const double ratio = bytes_of_latency(link) / bytes_of_latency(LinkModel{});
  const double scaled = static_cast<double>(chunk_bytes) * std::exp2(std::round(std::log2(ratio)));
  const int64_t most = std::max(chunk_bytes, kRoomyBytes / parts_per_unit(p));
  return static_cast<int64_t>(std::clamp(scaled, static_cast<double>(std::min(kLeastPart, most)),
                                         static_cast<double>(most)));
}

}  // namespace

int64_t parts_per_unit(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  if ((p.coded && !p.coded_sums) || sum_order(p) == SumOrder::kLine) return p.ranks();
  return int64_t{1} * hosts.largest() * std::max(1, hosts.tree[0].depth);
}

int64_t default_unit_bytes(const Problem& p, int64_t chunk_bytes, int64_t operation_bytes,
                           const LinkModel& link) {
  const int64_t parts = parts_per_unit(p);
  const int64_t part = least_part(p, chunk_bytes, link);
  const int64_t least = std::max({std::min(part * parts, kMostBytes), kLeastPart * parts,
                                  p.coded ? 0 : std::min(part * kFewParts, kRoomyBytes)});
  return std::max(least, std::min(operation_bytes / kUnitsPerOperation, kRoomyBytes));
}

void set_unit(Problem* p, int64_t element_bytes, int64_t chunk_bytes, const LinkModel& link,
              int64_t unit_bytes) {
  if (p->kind == Collective::kBarrier) return;
  if (unit_bytes == 0) {
    const int64_t bytes = p->kind == Collective::kAllReduce ? p->count * element_bytes : 0;
    unit_bytes = default_unit_bytes(*p, chunk_bytes, bytes, p->coded ? LinkModel{} : link);
  }
  p->unit = std::max<int64_t>(unit_bytes / element_bytes, 1);
}

std::vector<int64_t> unit_sizes_to_try(const Problem& p, int64_t chunk_bytes) {
  const int64_t most =
      std::max(2 * kLeastPart * parts_per_unit(p), default_unit_bytes(p, chunk_bytes, kMostBytes));
  std::vector<int64_t> sizes = {128 << 10};
  while (sizes.back() < kMostBytes || sizes.back() < most) sizes.push_back(2 * sizes.back());
  return sizes;
}

}  // namespace stretto::comm
