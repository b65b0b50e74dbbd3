// Which ranks share a host and which hosts share a rack, and the order in which everything is
// summed (see schedule.h).
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace stretto::comm {

// A node of the balanced tree over the hosts of a job. A leaf is one host.
struct TreeNode {
  int begin = 0, end = 0;     // the hosts below it
  int left = -1, right = -1;  // indices of its children; -1: a leaf
  int depth = 0;              // rounds of additions from the leaves to here

  int count() const { return end - begin; }
  bool leaf() const { return left < 0; }
};

struct Hosts {
  std::vector<std::vector<int>> members;  // by host, racks in order of their lowest rank and hosts
                                          // within a rack too; ranks ascending
  std::vector<int> rack;                  // of each host: its number, ascending
  std::vector<int> host;                  // of each rank: index into members
  std::vector<int> index;                 // of each rank: in its host's members
  std::vector<int> order;                 // all ranks, host after host: the order of summation
  std::vector<int> position;              // of each rank: in `order`
  std::vector<int> sizes;                 // the different numbers of ranks per host, ascending
  std::vector<TreeNode> tree;             // the root first; halves a rack's hosts and the racks

  int count() const { return static_cast<int>(members.size()); }
  int size(int h) const { return static_cast<int>(members[h].size()); }
  int racks() const { return rack.empty() ? 0 : rack.back() + 1; }
  bool equal_sizes() const { return sizes.size() <= 1; }
  int largest() const { return sizes.empty() ? 0 : sizes.back(); }
};

// labels[rank]: equal on the ranks of one host. racks[rank], if given: equal on the ranks of one
// rack; the lowest rank of a host decides for it.
Hosts find_hosts(std::span<const int> labels, std::span<const int> racks = {});

// Where ranks are. Made once for a job or group: finding hosts costs more than a small operation at
// thousands of ranks. Copies share the result, which never changes.
class Placement {
 public:
  Placement() : Placement(std::vector<int>()) {}
  Placement(const std::vector<int>& host, const std::vector<int>& rack = {})
      : hosts_(std::make_shared<const Hosts>(find_hosts(host, rack))) {}
  Placement(std::initializer_list<int> host) : Placement(std::vector<int>(host)) {}

  int ranks() const { return static_cast<int>(hosts_->host.size()); }
  const Hosts& hosts() const { return *hosts_; }

 private:
  std::shared_ptr<const Hosts> hosts_;
};

}  // namespace stretto::comm
