#include "stretto/cluster/simulate/nodes.h"

#include <algorithm>
#include <bit>

#include "stretto/base/error.h"

namespace stretto::cluster {

Nodes::Nodes(std::vector<NodeClass> classes) : classes_(std::move(classes)) {
  int buckets = 0, words = 0;
  for (size_t c = 0; c < classes_.size(); ++c) {
    NodeClass& nodes = classes_[c];
    STRETTO_CHECK(nodes.chips <= kMostChips, "a node of {} chips", nodes.chips);
    nodes.first = static_cast<int>(state_.size());
    first_bucket_.push_back(buckets);
    words_of_class_.push_back((nodes.count + 63) / 64);
    first_word_.push_back(words);
    buckets += nodes.chips + 1;
    words += (nodes.chips + 1) * words_of_class_.back();
    most_chips_ = std::max(most_chips_, nodes.chips);
    most_cores_ = std::max(most_cores_, nodes.cores_milli);
    total_chips_ += int64_t{nodes.chips} * nodes.count;
    for (int i = 0; i < nodes.count; ++i) {
      State state;
      state.of_class = static_cast<int>(c);
      state.first_chip = static_cast<int>(milli_.size());
      state.whole = nodes.chips;
      state.cores_milli = nodes.cores_milli;
      state.memory_mb = nodes.memory_mb;
      state.free_milli = int64_t{nodes.chips} * 1000;
      state.free_mask = nodes.chips == 64 ? ~uint64_t{0} : (uint64_t{1} << nodes.chips) - 1;
      milli_.resize(milli_.size() + static_cast<size_t>(nodes.chips), 1000);
      state_.push_back(state);
    }
  }
  bucket_counts_.assign(static_cast<size_t>(buckets), 0);
  bits_.assign(static_cast<size_t>(words), 0);
  for (int node = 0; node < count(); ++node) {
    const int c = state(node).of_class;
    set_bit(c, state(node).whole, node, true);
  }
}

void Nodes::set_bit(int of_class, int free, int node, bool on) {
  const size_t c = static_cast<size_t>(of_class);
  const int local = node - classes_[c].first;
  uint64_t& word =
      bits_[static_cast<size_t>(first_word_[c] + free * words_of_class_[c] + local / 64)];
  const uint64_t bit = uint64_t{1} << (local % 64);
  word = on ? word | bit : word & ~bit;
  bucket_counts_[bucket(of_class, free)] += on ? 1 : -1;
}

void Nodes::move(int node, int before, int after) {
  if (before == after) return;
  set_bit(state(node).of_class, before, node, false);
  set_bit(state(node).of_class, after, node, true);
}

bool Nodes::fits_empty(const NodeClass& nodes, const Need& need) {
  return need.chips <= nodes.chips && need.cores_milli <= nodes.cores_milli &&
         (nodes.memory_mb == 0 || need.memory_mb <= nodes.memory_mb);
}

bool Nodes::fits(int node, const Need& need) const {
  const State& s = state(node);
  if (need.cores_milli > s.cores_milli) return false;
  if (need.memory_mb > s.memory_mb && class_of(node).memory_mb != 0) return false;
  if (need.whole()) return need.chips <= s.whole;
  if (s.whole > 0) return true;
  return std::ranges::any_of(chips(node), [&](int16_t free) { return free >= need.milli; });
}

Taken Nodes::take(Spot spot, const Need& need) {
  State& s = state_[static_cast<size_t>(spot.node)];
  Taken taken{.node = spot.node, .need = need};
  const int before = s.whole;
  int16_t* milli = milli_.data() + s.first_chip;
  if (need.whole()) {
    for (int i = 0; i < need.chips; ++i) {
      const int chip = std::countr_zero(s.free_mask);
      s.free_mask &= s.free_mask - 1;
      taken.chips |= uint64_t{1} << chip;
      milli[chip] = 0;
    }
    s.whole -= need.chips;
  } else {
    int chip = spot.chip;
    if (chip < 0) {
      for (int i = 0; i < class_of(spot.node).chips; ++i) {
        if (milli[i] >= need.milli && (chip < 0 || milli[i] < milli[chip])) chip = i;
      }
    }
    const uint64_t bit = uint64_t{1} << chip;
    if ((s.free_mask & bit) != 0) {
      s.free_mask &= ~bit;
      --s.whole;
    }
    milli[chip] = static_cast<int16_t>(milli[chip] - need.milli);
    taken.chips = bit;
  }
  s.cores_milli -= need.cores_milli;
  s.memory_mb -= need.memory_mb;
  s.free_milli -= need.chip_milli();
  used_milli_ += need.chip_milli();
  ++s.changes;
  move(spot.node, before, s.whole);
  return taken;
}

void Nodes::give(const Taken& taken) {
  State& s = state_[static_cast<size_t>(taken.node)];
  const int before = s.whole;
  int16_t* milli = milli_.data() + s.first_chip;
  for (uint64_t rest = taken.chips; rest != 0; rest &= rest - 1) {
    const int chip = std::countr_zero(rest);
    milli[chip] = static_cast<int16_t>(milli[chip] + taken.need.milli);
    if (milli[chip] == 1000) {
      s.free_mask |= uint64_t{1} << chip;
      ++s.whole;
    }
  }
  s.cores_milli += taken.need.cores_milli;
  s.memory_mb += taken.need.memory_mb;
  s.free_milli += taken.need.chip_milli();
  used_milli_ -= taken.need.chip_milli();
  ++s.changes;
  move(taken.node, before, s.whole);
}

int Nodes::first_with(int of_class, int free, int from) const {
  const size_t c = static_cast<size_t>(of_class);
  if (bucket_counts_[bucket(of_class, free)] == 0) return -1;
  int local = std::max(0, from - classes_[c].first);
  if (local >= classes_[c].count) return -1;
  const uint64_t* words = bits_.data() + first_word_[c] + free * words_of_class_[c];
  uint64_t word = words[local / 64] & (~uint64_t{0} << (local % 64));
  for (int w = local / 64;;) {
    if (word != 0) return classes_[c].first + w * 64 + std::countr_zero(word);
    if (++w == words_of_class_[c]) return -1;
    word = words[w];
  }
}

}  // namespace stretto::cluster
