// For tests of the edges of an object's life: who waits meanwhile, and what a forked child is told.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace stretto::comm::testing {

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

// The number, from 1, of the first method that does not say that the process was forked; 0: none.
inline int first_unaware(const std::vector<std::function<void()>>& methods) {
  for (size_t i = 0; i < methods.size(); ++i) {
    if (error_of(methods[i]).find("before fork()") == std::string::npos)
      return static_cast<int>(i) + 1;
  }
  return 0;
}

inline void wait_until_waiting() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

}  // namespace stretto::comm::testing
