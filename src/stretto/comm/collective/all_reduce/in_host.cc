#include "stretto/comm/collective/all_reduce/in_host.h"

#include <algorithm>
#include <cmath>

namespace stretto::comm {

int Share::carrier(const Hosts& hosts, int host) const {
  const auto size = std::lower_bound(hosts.sizes.begin(), hosts.sizes.end(), hosts.size(host));
  return hosts.members[host][member[size - hosts.sizes.begin()]];
}

InHost::InHost(Builder& b, Part whole, int64_t align)
    : b_(b), whole_(whole), align_(align), index_(b.hosts.index[b.me]) {
  const Hosts& hosts = b.hosts;
  std::vector<int64_t> cuts = {whole.begin, whole.end};
  for (const int size : hosts.sizes)
    for (int j = 1; j < size; ++j) cuts.push_back(cut(whole, size, j, align).begin);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  shares_ = static_cast<int>(cuts.size()) - 1;
  const Part mine = part(index_);
  std::vector<int> member(hosts.sizes.size());
  for (int i = 0; i < shares_; ++i) {
    const Part share{cuts[i], cuts[i + 1]};
    for (size_t s = 0; s < hosts.sizes.size(); ++s)
      while (cut(whole, hosts.sizes[s], member[s], align).end < share.end) ++member[s];
    if (share.begin >= mine.begin && share.end <= mine.end) own_.push_back({share, i, member});
  }
}

Part InHost::part(int member) const { return cut(whole_, b_.hosts.size(host()), member, align_); }

Place InHost::host_sum(const Share& share) const {
  return alone() ? input(share.part.begin) : output(share.part.begin);
}

// Tags between two ranks of a host: 0 on the way to the sum, 1 on the way back.
int32_t InHost::sum() {
  if (alone()) return -1;
  const int size = b_.hosts.size(host());
  for (const int member : Builder::others(index_, size))
    b_.send(neighbours()[member], 0, input(part(member).begin), part(member).count());
  const Part mine = part(index_);
  std::vector<Source> sources(static_cast<size_t>(size));
  Steps received;
  for (const int member : Builder::others(index_, size)) {
    sources[member].place = b_.scratch(mine.count());
    received.push_back(b_.receive(neighbours()[member], 0, sources[member].place, mine.count()));
  }
  sources[index_].place = input(mine.begin);
  for (size_t i = 1; i < sources.size(); ++i) sources[i].begins_host = false;
  return b_.reduce(sources, output(mine.begin), mine.count(), false, received);
}

void InHost::spread(Waits ready) {
  const Part mine = part(index_);
  const std::vector<int> others = Builder::others(index_, b_.hosts.size(host()));
  for (const int member : others)
    b_.send(neighbours()[member], 1, output(mine.begin), mine.count(), ready);
  for (const int member : others)
    b_.receive(neighbours()[member], 1, output(part(member).begin), part(member).count());
}

double carriers(const Problem& p, int64_t align) {
  return std::clamp(std::ceil(static_cast<double>(p.count) / static_cast<double>(align)), 1.0,
                    static_cast<double>(p.host.hosts().largest()));
}

}  // namespace stretto::comm
