#include "stretto/comm/collective/schedule.h"

#include <algorithm>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/comm/collective/builder.h"

namespace stretto::comm {
namespace {

bool of_tensor(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduce ||
         kind == Collective::kBroadcast;
}

int64_t longest_block(const Problem& p) {
  if (p.counts.empty()) return p.count;
  int64_t longest = *std::max_element(p.counts.begin(), p.counts.end());
  for (const int64_t c : p.receive_counts) longest = std::max(longest, c);
  return longest;
}

// Elements that a unit covers of the tensor or of a block.
int64_t unit_elements(const Problem& p) {
  const int64_t total = of_tensor(p.kind) ? p.count : longest_block(p);
  if (p.unit <= 0 || total == 0) return std::max<int64_t>(total, 1);
  int64_t unit = of_tensor(p.kind) ? p.unit : std::max<int64_t>(1, p.unit / p.ranks());
  // Units have equal sizes, because a short last one would cost as many messages as the others.
  // Ranks with blocks of different sizes must get the same units without knowing each other's
  // blocks.
  if (p.kind != Collective::kAllToAll) {
    const int64_t units = (total + unit - 1) / unit;
    unit = (total + units - 1) / units;
  }
  return (unit + p.align - 1) / p.align * p.align;
}

Part unit_span(int64_t size, int64_t unit, int64_t total) {
  return {std::min(total, unit * size), std::min(total, (unit + 1) * size)};
}

}  // namespace

std::string_view collective_name(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kReduce:
      return "reduce";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kBarrier:
      return "barrier";
  }
  return "?";
}

// In the line every rank that sums needs all contributions, so messages per rank grow with the
// hosts; in the tree they grow with their logarithm, but take more rounds. With the latencies of
// LinkModel (algorithm.h) a tensor of 4 KB takes the same time in both orders at 40 to 60 hosts,
// and a large one needs messages of at least 1/32 of a unit to use a fast link.
constexpr int kMostHostsInLine = 32;

SumOrder sum_order(const Problem& p) {
  if (p.order != SumOrder::kAuto) return p.order;
  const Hosts& hosts = p.host.hosts();
  return hosts.count() > kMostHostsInLine || hosts.racks() > 1 ? SumOrder::kTree : SumOrder::kLine;
}

void validate(const Problem& p) {
  const std::string_view name = collective_name(p.kind);
  const int n = p.ranks();
  if (n < 1) throw_invalid("{}: expected at least one rank, got none", name);
  if (p.rank < 0 || p.rank >= n)
    throw_invalid("{}: expected a rank below {}, got {}", name, n, p.rank);
  if (p.root < 0 || p.root >= n)
    throw_invalid("{}: expected a root below {}, got {}", name, n, p.root);
  if (p.count < 0) throw_invalid("{}: expected a count of at least 0, got {}", name, p.count);
  if (p.align < 1) throw_invalid("{}: expected an alignment of at least 1, got {}", name, p.align);
  if (p.coded && p.kind != Collective::kAllReduce)
    throw_invalid("{}: only all_reduce goes through a codec", name);
  if (of_tensor(p.kind) && !p.counts.empty())
    throw_invalid("{}: takes one count, got {} block counts", name, p.counts.size());
  for (const auto* counts : {&p.counts, &p.receive_counts}) {
    if (!counts->empty() && static_cast<int>(counts->size()) != n)
      throw_invalid("{}: expected {} block counts, got {}", name, n, counts->size());
    for (const int64_t c : *counts)
      if (c < 0) throw_invalid("{}: expected block counts of at least 0, got {}", name, c);
  }
  for (const auto* begins : {&p.displacements, &p.receive_displacements})
    if (!begins->empty() && static_cast<int>(begins->size()) != n)
      throw_invalid("{}: expected {} displacements, got {}", name, n, begins->size());
  if (p.kind == Collective::kAllToAll && p.counts.empty() != p.receive_counts.empty())
    throw_invalid("{}: needs both the counts to send and to receive, or neither", name);
}

int64_t unit_count(const Problem& p) {
  if (p.kind == Collective::kBarrier) return 1;
  const int64_t total = of_tensor(p.kind) ? p.count : longest_block(p);
  const int64_t size = unit_elements(p);
  return (total + size - 1) / size;
}

Part unit_of_tensor(const Problem& p, int64_t unit) {
  return unit_span(unit_elements(p), unit, p.count);
}

Blocks::Blocks(const Problem& p, int64_t unit)
    : problem_(p), unit_(unit), unit_elements_(unit_elements(p)) {
  if (p.counts.empty() || !p.displacements.empty()) return;
  begins_.resize(p.counts.size());
  std::exclusive_scan(p.counts.begin(), p.counts.end(), begins_.begin(), int64_t{0});
}

Part Blocks::part(int rank) const {
  return unit_span(unit_elements_, unit_,
                   problem_.counts.empty() ? problem_.count : problem_.counts[rank]);
}

int64_t Blocks::begin(int rank) const {
  if (!problem_.displacements.empty()) return problem_.displacements[rank];
  return begins_.empty() ? problem_.count * rank : begins_[rank];
}

int64_t total_count(const Problem& p) {
  if (p.counts.empty()) return p.count * p.ranks();
  return std::accumulate(p.counts.begin(), p.counts.end(), int64_t{0});
}

}  // namespace stretto::comm
