// Random numbers by counter: a pure function, so that any number of threads and ranks can draw the
// numbers of one stream, each its part, in any order. Philox 4x32-10 of Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3" (doi:10.1145/2063384.2063405).
#pragma once

#include <array>
#include <cstdint>

namespace stretto {

constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

}  // namespace stretto
