#include "stretto/comm/collective/hosts.h"

#include <algorithm>
#include <map>

namespace stretto::comm {

Hosts find_hosts(std::span<const int> labels) {
  Hosts hosts;
  std::map<int, int> seen;
  for (int rank = 0; rank < static_cast<int>(labels.size()); ++rank) {
    const auto [at, fresh] = seen.try_emplace(labels[rank], hosts.count());
    if (fresh) hosts.members.emplace_back();
    hosts.host.push_back(at->second);
    hosts.index.push_back(hosts.size(at->second));
    hosts.members[at->second].push_back(rank);
  }
  for (const auto& members : hosts.members)
    hosts.order.insert(hosts.order.end(), members.begin(), members.end());
  return hosts;
}

bool Hosts::equal_sizes() const {
  return std::all_of(members.begin(), members.end(),
                     [&](const auto& m) { return m.size() == members[0].size(); });
}

int Hosts::largest() const {
  size_t most = 0;
  for (const auto& m : members) most = std::max(most, m.size());
  return static_cast<int>(most);
}

}  // namespace stretto::comm
