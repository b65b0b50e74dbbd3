// The nodes of a simulated cluster: what is free on each, and which of alike nodes have how many
// free chips, so that the best one is found without looking at all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stretto::cluster {

// What a job takes of one node.
struct Need {
  int chips = 0;
  int milli = 1000;  // of each chip, in thousandths; below 1000 with one chip only
  int cores_milli = 0;
  int64_t memory_mb = 0;

  bool whole() const { return milli == 1000; }
  int64_t chip_milli() const { return int64_t{chips} * milli; }
  bool operator==(const Need&) const = default;
};

// A node, and the chip on it where the job takes a part of one. node -1: nowhere.
struct Spot {
  int node = -1, chip = -1;
};

// What was taken of a node.
struct Taken {
  int node = -1;
  uint64_t chips = 0;  // a bit for each
  Need need;
};

// Nodes that are alike and belong together.
struct NodeClass {
  int region = 0;  // of the site: a group or the reserve
  int kind = -1;   // of the chips; -1: no chips
  int chips = 0;
  int cores_milli = 0;
  int64_t memory_mb = 0;     // 0: not said, and then not counted
  int first = 0, count = 0;  // its nodes are numbered one behind the other
  std::vector<int> ranks;    // the place of each node among the names of the site
};

constexpr int kMostChips = 64;  // of one node

class Nodes {
 public:
  Nodes() = default;
  // Numbers the nodes: sets `first` of the classes.
  explicit Nodes(std::vector<NodeClass> classes);

  int count() const { return static_cast<int>(state_.size()); }
  const std::vector<NodeClass>& classes() const { return classes_; }
  const NodeClass& class_of(int node) const {
    return classes_[static_cast<size_t>(state(node).of_class)];
  }
  int rank(int node) const {  // of its name among those of the site
    const NodeClass& nodes = class_of(node);
    return nodes.ranks[static_cast<size_t>(node - nodes.first)];
  }
  int64_t total_chips() const { return total_chips_; }
  int most_chips() const { return most_chips_; }
  int most_cores_milli() const { return most_cores_; }
  // Thousandths of chips in use, all nodes together.
  int64_t used_milli() const { return used_milli_; }

  int whole(int node) const { return state(node).whole; }  // chips that are wholly free
  int cores_milli(int node) const { return state(node).cores_milli; }
  int64_t memory_mb(int node) const { return state(node).memory_mb; }
  int64_t free_milli(int node) const { return state(node).free_milli; }
  // Thousandths that are free of each chip.
  std::span<const int16_t> chips(int node) const {
    return {milli_.data() + state(node).first_chip, static_cast<size_t>(class_of(node).chips)};
  }
  uint32_t changes(int node) const { return state(node).changes; }  // grows with every change

  bool fits(int node, const Need& need) const;
  static bool fits_empty(const NodeClass& nodes, const Need& need);

  // The need fits there. Whole chips are the lowest free ones; `spot.chip` -1 takes the part of the
  // fullest chip that has room.
  Taken take(Spot spot, const Need& need);
  void give(const Taken& taken);

  // The first node from `from` on, of a class, with exactly `free` wholly free chips; -1: none.
  int first_with(int of_class, int free, int from = 0) const;
  int count_with(int of_class, int free) const { return bucket_counts_[bucket(of_class, free)]; }

 private:
  struct State {
    int of_class = 0, first_chip = 0, whole = 0, cores_milli = 0;
    uint32_t changes = 0;
    int64_t memory_mb = 0, free_milli = 0;
    uint64_t free_mask = 0;
  };

  const State& state(int node) const { return state_[static_cast<size_t>(node)]; }
  size_t bucket(int of_class, int free) const {
    return static_cast<size_t>(first_bucket_[static_cast<size_t>(of_class)] + free);
  }
  void move(int node, int before, int after);
  void set_bit(int of_class, int free, int node, bool on);

  std::vector<NodeClass> classes_;
  std::vector<State> state_;
  std::vector<int16_t> milli_;
  // For each class and number of free chips: a bit for each node of the class.
  std::vector<int> first_bucket_, bucket_counts_, words_of_class_, first_word_;
  std::vector<uint64_t> bits_;
  int64_t total_chips_ = 0, used_milli_ = 0;
  int most_chips_ = 0, most_cores_ = 0;
};

}  // namespace stretto::cluster
