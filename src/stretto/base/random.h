// The random numbers that models draw.
#pragma once

#include <array>
#include <cstdint>

#include "stretto/base/philox.h"

namespace stretto {

// The numbers of one evaluation of one node: four words for each place.
struct RandomStream {
  uint64_t key = 0, draw = 0;

  std::array<uint32_t, 4> operator()(uint64_t place) const {
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    return philox({low(place), high(place), low(draw), high(draw)}, {low(key), high(key)});
  }

  // Those of many places from `first` on: out[k][j] is word k of place first + j.
  template <int kPlaces>
  void words(uint64_t first, uint32_t (&out)[4][kPlaces]) const {
    for (int j = 0; j < kPlaces; ++j) {
      const auto place = (*this)(first + static_cast<uint64_t>(j));
      for (int k = 0; k < 4; ++k) out[k][j] = place[k];
    }
  }
};

// The next one of this process. No two are alike unless the process is seeded again. Thread-safe.
RandomStream next_random_stream();
// Streams that follow are those of this seed, from the first on. Until then the system chooses.
void manual_seed(uint64_t seed);

// The same stream at every call.
RandomStream random_stream_of(uint64_t number);

// While one lives, nodes that this thread evaluates draw the same in every run, by numbers of their
// own: results of several programs of one model can be compared.
class RepeatedDraws {
 public:
  RepeatedDraws();
  ~RepeatedDraws();
  RepeatedDraws(const RepeatedDraws&) = delete;
  RepeatedDraws& operator=(const RepeatedDraws&) = delete;
  static bool alive();

 private:
  bool outer_;
};

}  // namespace stretto
