#include "stretto/comm/tuning/group_links.h"

#include <vector>

#include "stretto/comm/collective/unit_size.h"

namespace stretto::comm {
namespace {

// Between these sizes an all-reduce takes about alpha + beta x bytes.
constexpr int64_t kShortBytes = 64 << 10, kLongBytes = 8 << 20;

Problem all_reduce_of(const Placement& placement, int64_t bytes, const LinkModel& link,
                      int64_t chunk_bytes) {
  Problem problem{.host = placement, .count = bytes / 4};
  set_unit(&problem, 4, chunk_bytes, link);
  return problem;
}

double coded_share(const Placement& placement, int64_t chunk_bytes) {
  const LinkModel usual;
  Problem problem = all_reduce_of(placement, kLongBytes, usual, chunk_bytes);
  problem.coded = true;
  const Algorithm& algorithm = choose_algorithm(problem, usual, {.local = 4, .wire = 2});
  return algorithm.cost(problem).wire_elements / static_cast<double>(problem.count);
}

}  // namespace

GroupLinks group_links(const Placement& placement, const LinkCosts& known, int64_t chunk_bytes) {
  GroupLinks links{.known = known, .model = model_of(known, {})};
  if (placement.ranks() < 2) return links;
  const bool one_host = placement.hosts().count() == 1;
  links.measured = known[one_host ? kLocalByte : kWireByte] > 0 &&
                   known[one_host ? kLocalLatency : kWireLatency] > 0;
  std::vector<Transfer> transfers;
  for (const int64_t bytes : {kShortBytes, kLongBytes}) {
    const Problem problem = all_reduce_of(placement, bytes, links.model, chunk_bytes);
    const Algorithm& algorithm = choose_algorithm(problem, links.model, {});
    transfers.push_back(
        {static_cast<double>(bytes), estimate_s(problem, algorithm, links.model, {})});
  }
  links.all_reduce = fit_link(transfers);
  if (!one_host) links.coded_share = coded_share(placement, chunk_bytes);
  return links;
}

}  // namespace stretto::comm
