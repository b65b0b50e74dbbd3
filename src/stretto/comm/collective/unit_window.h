// How many units of a group's operations a rank has under way at once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stretto::comm {

// Bytes of units under way: enough to send and add at the same time, few enough to stay in the
// cache.
inline constexpr int64_t kWindowBytes = 8 << 20;

// A unit takes so many bytes of the window: its size, but a small one counts as 64 KB.
inline int64_t window_share(int64_t unit_bytes) {
  constexpr int64_t kSmallUnitBytes = 64 << 10;
  return std::max(unit_bytes, kSmallUnitBytes);
}

// Whether a unit may start when those under way take `active_bytes` of the window. Two of any size
// may.
inline bool unit_may_start(int64_t active_bytes, int64_t unit_bytes,
                           int64_t window_bytes = kWindowBytes) {
  const int64_t share = window_share(unit_bytes);
  return active_bytes == 0 || active_bytes + share <= std::max(window_bytes, 2 * share);
}

}  // namespace stretto::comm
