// Random numbers of samples: the same one gets the same numbers in whatever order, on whatever
// thread and rank it is prepared.
#pragma once

#include <array>
#include <cstdint>

#include "stretto/base/philox.h"

namespace stretto::media {

// Who draws. Each has numbers of its own, so that one more operator changes nothing for the others.
// Those above kOther, up to 255, are of picture operators (operators/apply.cc, operators/mix.cc).
enum class Draw : uint32_t { kCrop, kFlip, kColour, kOther };

// The numbers of one sample in one epoch.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint32_t epoch, uint64_t sample, Draw draw)
      : counter_{0, epoch, static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
        key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {
    counter_[0] = static_cast<uint32_t>(draw) << 24;  // 2^24 blocks of four numbers for each
  }

  uint32_t bits() {
    if (used_ == numbers_.size()) {
      numbers_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return numbers_[used_++];
  }
  // In [0, 1), of 53 bits.
  double unit() {
    const uint64_t high = bits() >> 5, low = bits() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  // In [0, count). For count < 2^32 the chances differ by less than 2^-32 of one.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uint64_t{bits()} * static_cast<uint64_t>(count) >> 32);
  }
  bool flip(double chance) { return unit() < chance; }

 private:
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> numbers_{};
  size_t used_ = 4;
};

}  // namespace stretto::media
