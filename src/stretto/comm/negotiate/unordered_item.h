// An operation of an Unordered.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/negotiate/unordered.h"

namespace stretto::comm {

// News of fewer bytes are small: nothing is gained by sending them while more names come.
inline constexpr int64_t kManyBytes = 256 << 10;

// An operation of the engine that carries those of one item or of many. Any number of threads may
// wait for it, although the engine releases its handle after the first wait.
class Carrier {
 public:
  Carrier(Engine& engine, Handle handle) : engine_(engine), handle_(handle) {}

  // Waits at most timeout_s seconds, if not negative; false if it is not over. Throws its error,
  // each time.
  bool wait(double timeout_s);
  // Somebody has waited for it, and it has succeeded.
  bool succeeded() const { return over_.load(std::memory_order_acquire) && !error_; }

 private:
  Engine& engine_;
  const Handle handle_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::condition_variable freed_;
  bool taken_ = false;  // a thread waits for the handle
  std::exception_ptr error_;
};

// Lives from submission until wait() has returned.
struct Unordered::Item {
  std::shared_ptr<const std::string> description;
  Start start;  // empty: `recurring` or `operations` are to be started
  Group group = kWorld;
  const Recurring* recurring = nullptr;  // lives as long as `description`
  void* data = nullptr;                  // of `recurring`
  std::string_view name;                 // of `recurring`, once it is agreed
  std::vector<Operation> operations;

  bool started = false;  // or has failed
  std::mutex resting;    // held by the thread that calls `rest` or waits for `carriers`
  Rest rest;             // of what `start` has started
  std::vector<std::shared_ptr<Carrier>> carriers;  // of `operations`, when they have started
  std::exception_ptr error;
};

}  // namespace stretto::comm
