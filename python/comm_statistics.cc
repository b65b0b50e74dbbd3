#include "comm_statistics.h"

#include <nanobind/stl/string.h>

#include <vector>

namespace nb = nanobind;

namespace stretto::python {

using namespace stretto::comm;

namespace {

nb::list tuning_list(const std::vector<TuningStatistics>& groups) {
  nb::list result;
  for (const TuningStatistics& group : groups) {
    nb::list tried;
    for (const TuningStatistics::Tried& t : group.tried) {
      nb::dict row;
      row["setting"] = t.setting;
      row["seconds"] = t.seconds;
      row["against_seconds"] = t.against_seconds;
      row["won"] = t.won;
      tried.append(row);
    }
    nb::dict row;
    row["group"] = group.group;
    row["model"] = group.model;
    row["setting"] = group.setting;
    row["recalled"] = group.recalled;
    row["settled"] = group.settled;
    row["steps"] = group.steps.steps;
    row["bytes"] = group.steps.bytes;
    row["seconds"] = group.steps.seconds;
    row["busy_s"] = group.steps.busy_s;
    row["exposed_s"] = group.steps.exposed_s;
    row["step_s"] = group.step_s;
    row["tried"] = tried;
    result.append(row);
  }
  return result;
}

}  // namespace

nb::dict links_dict(const GroupLinks& links) {
  nb::dict row;
  row["measured"] = links.measured;
  row["alpha_s"] = links.all_reduce.alpha_s;
  row["beta_s_per_byte"] = links.all_reduce.beta_s_per_byte;
  row["wire_byte_s"] = links.model.wire_byte_s;
  row["wire_latency_s"] = links.model.wire_latency_s;
  row["local_byte_s"] = links.model.local_byte_s;
  row["local_latency_s"] = links.model.local_latency_s;
  return row;
}

nb::dict statistics_dict(const Statistics& s) {
  nb::list links;
  for (const LinkStatistics& link : s.links) {
    nb::list streams;
    for (const StreamStatistics& stream : link.streams) {
      nb::dict row;
      row["name"] = stream.name;
      row["sent_bytes"] = stream.sent_bytes;
      row["received_bytes"] = stream.received_bytes;
      row["alive"] = stream.alive;
      row["used"] = stream.used;
      row["reason"] = stream.reason;
      streams.append(row);
    }
    nb::dict row;
    row["rank"] = link.rank;
    row["host"] = link.host;
    row["no_rdma"] = link.no_rdma;
    row["streams"] = streams;
    links.append(row);
  }
  nb::dict result;
  result["operations"] = s.operations;
  result["joined"] = s.joined;
  result["resent_chunks"] = s.resent_chunks;
  result["duplicate_chunks"] = s.duplicate_chunks;
  result["dropped_messages"] = s.dropped_messages;
  result["revived_streams"] = s.revived_streams;
  result["payload_bytes"] = s.payload_bytes;
  result["peak_eager_bytes"] = s.peak_eager_bytes;
  result["sum_s"] = s.sum_s;
  result["links"] = links;
  result["tuning"] = tuning_list(s.tuning);
  return result;
}

}  // namespace stretto::python
