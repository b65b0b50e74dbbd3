// The random numbers that models draw.
#pragma once

#include <array>
#include <cstdint>

namespace stretto {

// The numbers of one evaluation of one node: 128 bits for each place.
struct RandomStream {
  uint64_t key = 0, draw = 0;
  std::array<uint32_t, 4> operator()(uint64_t place) const;
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
