// For tests of the edges of an object's life: who waits meanwhile, and what a forked child is told.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stretto::comm::testing {

// Several threads may catch one exception. The C++ library counts who still has it, which the
// thread sanitizer does not see, so that it takes the end of the last one for a race. None ends
// here.
inline void keep_for_ever(std::exception_ptr exception) {
  static std::mutex mutex;
  static std::vector<std::exception_ptr> kept;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(exception));
}

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    keep_for_ever(std::current_exception());
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
