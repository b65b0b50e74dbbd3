#include "stretto/comm/link/byte_ranges.h"

#include <algorithm>

namespace stretto::comm {

// The first range beyond the gap that begins at low_ whose begin is not below `begin`.
std::vector<ByteRanges::Range>::const_iterator ByteRanges::after(uint64_t begin) const {
  return std::lower_bound(beyond_.begin(), beyond_.end(), Range{begin, 0});
}

bool ByteRanges::overlaps(uint64_t begin, uint64_t end) const {
  if (begin >= end) return false;
  if (begin < low_) return true;
  const auto next = after(begin);
  if (next != beyond_.end() && next->first < end) return true;
  return next != beyond_.begin() && std::prev(next)->second > begin;
}

void ByteRanges::add(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  bytes_ += end - begin;
  if (begin == low_) {
    low_ = end;
    if (!beyond_.empty() && beyond_.front().first == low_) {
      low_ = beyond_.front().second;
      beyond_.erase(beyond_.begin());
    }
    return;
  }
  const auto next = beyond_.begin() + (after(begin) - beyond_.cbegin());
  const bool joins_next = next != beyond_.end() && next->first == end;
  const bool joins_last = next != beyond_.begin() && std::prev(next)->second == begin;
  if (joins_last && joins_next) {
    std::prev(next)->second = next->second;
    beyond_.erase(next);
  } else if (joins_last) {
    std::prev(next)->second = end;
  } else if (joins_next) {
    next->first = begin;
  } else {
    beyond_.insert(next, {begin, end});
  }
}

}  // namespace stretto::comm
