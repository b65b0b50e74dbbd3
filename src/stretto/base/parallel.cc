#include "stretto/base/parallel.h"

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace stretto {

void run_parallel(int count, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::mutex mutex;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  if (count > 1) helpers.reserve(static_cast<size_t>(count) - 1);
  try {
    for (int i = 1; i < count; ++i) helpers.emplace_back(guarded);
  } catch (const std::system_error&) {
  }
  guarded();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stretto
