// Keys and values in memory, for stores. All methods may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto::comm {

// The error of Store::get() when the time is up.
[[noreturn]] inline void throw_missing(std::string_view key, double timeout_s) {
  throw CommError(-1, "store",
                  fmt::format("store: no rank set '{}' within {:g} s", key, timeout_s));
}

class StoreMap {
 public:
  void set(std::string_view key, std::string_view value) {
    {
      std::lock_guard lock(mutex_);
      values_.insert_or_assign(std::string(key), std::string(value));
    }
    changed_.notify_all();
  }

  // Empty when the key is not set now.
  std::optional<std::string> find(std::string_view key) const {
    std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  // Waits until the key is set; throws CommError after timeout_s seconds.
  std::string get(std::string_view key, double timeout_s) const {
    std::unique_lock lock(mutex_);
    auto found = values_.end();
    const bool present = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), [&] {
      found = values_.find(key);
      return found != values_.end();
    });
    if (!present) throw_missing(key, timeout_s);
    return found->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace stretto::comm
