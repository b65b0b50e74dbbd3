// Keys and values in memory, for stores; any thread may ask.
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

// What a store's get() throws.
[[noreturn]] inline void throw_missing(std::string_view key, double timeout_s) {
  throw CommError(-1, "store", fmt::format("store: nobody set '{}' within {:g} s", key, timeout_s));
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

  // Of now.
  std::optional<std::string> find(std::string_view key) const {
    std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  // Waits for somebody to set it; throws CommError after timeout_s.
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
