// Which bytes of a message have arrived. Chunks come nearly in the order of their offsets, so that
// a number says it all most of the time and there is nothing to allocate.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stretto::comm {

class ByteRanges {
 public:
  // Whether any byte of [begin, end) is there. Never for an empty range.
  bool overlaps(uint64_t begin, uint64_t end) const;

  // Adds [begin, end), of which no byte may be there.
  void add(uint64_t begin, uint64_t end);

  uint64_t bytes() const { return bytes_; }  // that are there

 private:
  using Range = std::pair<uint64_t, uint64_t>;  // begin, end
  std::vector<Range>::const_iterator after(uint64_t begin) const;

  uint64_t low_ = 0;           // all bytes up to here are there
  std::vector<Range> beyond_;  // ascending, with gaps before, between and after them
  uint64_t bytes_ = 0;
};

}  // namespace stretto::comm
