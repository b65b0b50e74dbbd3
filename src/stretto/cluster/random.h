// The simulator's numbers: the same on every machine, unlike those of the standard distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stretto::cluster {

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // From 0 to `count` - 1, each as likely as the others; `count` is at least 1.
  uint64_t below(uint64_t count) {
    const uint64_t unfair = (0 - count) % count;  // so many of the lowest values are one too many
    uint64_t value = next();
    while (value < unfair) value = next();
    return value % count;
  }

  // From 0 to less than 1.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace stretto::cluster
