#include "stretto/comm/engine/job_hosts.h"

#include <string_view>
#include <unordered_map>

#include "stretto/base/error.h"

namespace stretto::comm {

Placement JobHosts::placement(std::span<const int> of) const {
  std::vector<int> hosts, racks;
  for (const int rank : of) {
    hosts.push_back(host[rank]);
    racks.push_back(rack[rank]);
  }
  return Placement(hosts, racks);
}

JobHosts find_job_hosts(const std::vector<std::string>& host_names,
                        const std::vector<std::string>& rack_names) {
  JobHosts found;
  std::unordered_map<std::string_view, int> hosts, racks;  // their numbers
  for (size_t rank = 0; rank < host_names.size(); ++rank) {
    const int host =
        hosts.try_emplace(host_names[rank], static_cast<int>(hosts.size())).first->second;
    const int rack =
        racks.try_emplace(rack_names[rank], static_cast<int>(racks.size())).first->second;
    found.ranks.resize(hosts.size());
    found.ranks[host].push_back(static_cast<int>(rank));
    found.host.push_back(host);
    found.rack.push_back(rack);
    const int first = found.ranks[host].front();
    if (found.rack[first] != rack)
      throw_invalid(
          "STRETTO_RACK: ranks {} and {} are on one host, but their racks are '{}' and '{}'", first,
          rank, rack_names[first], rack_names[rank]);
  }
  return found;
}

}  // namespace stretto::comm
