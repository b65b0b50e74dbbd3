// The numbers of names, by 64-bit hashes of the names. One array, so that a look-up reads one cache
// line; nothing is allocated for a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stretto::comm {

class NameNumbers {
 public:
  static constexpr int kNone = -1;

  // kNone: the name has no number.
  int find(uint64_t hash) const {
    if (places_.empty()) return kNone;
    for (size_t at = home(hash);; at = next(at)) {
      const Place& place = places_[at];
      if (place.number == kNone || place.hash == hash) return place.number;
    }
  }

  // The name has no number yet.
  void insert(uint64_t hash, int number) {
    if (2 * (size_ + 1) > places_.size()) grow();
    place(hash, number);
    ++size_;
  }

  void erase(uint64_t hash) {
    if (find(hash) == kNone) return;
    size_t hole = home(hash);
    while (places_[hole].hash != hash) hole = next(hole);
    // Those behind move up, if they may stand in the hole.
    for (size_t at = next(hole); places_[at].number != kNone; at = next(at)) {
      const size_t mask = places_.size() - 1;
      if (((at - home(places_[at].hash)) & mask) < ((at - hole) & mask)) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole] = {};
    --size_;
  }

  size_t size() const { return size_; }

 private:
  struct Place {
    uint64_t hash = 0;
    int number = kNone;
  };

  // XXH3 spreads all bits.
  size_t home(uint64_t hash) const { return hash & (places_.size() - 1); }
  size_t next(size_t at) const { return (at + 1) & (places_.size() - 1); }

  void place(uint64_t hash, int number) {
    size_t at = home(hash);
    while (places_[at].number != kNone) at = next(at);
    places_[at] = {hash, number};
  }

  void grow() {
    std::vector<Place> before(places_.empty() ? 64 : 2 * places_.size());
    before.swap(places_);
    for (const Place& old : before)
      if (old.number != kNone) place(old.hash, old.number);
  }

  std::vector<Place> places_;  // a power of two of them, at most half in use
  size_t size_ = 0;
};

}  // namespace stretto::comm
