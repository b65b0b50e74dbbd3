// Monotonic time.
#pragma once

#include <chrono>

namespace stretto {

// Seconds since an arbitrary start.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace stretto
