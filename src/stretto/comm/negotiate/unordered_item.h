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

// Lives from submission until wait() has returned. What an operation of `recurring` needs comes
// first, to be in few cache lines.
struct Unordered::Item {
  bool started = false;  // or has failed
  Group group = kWorld;
  Handle handle = kNoHandle;
  const Recurring* recurring = nullptr;  // lives as long as `description`
  void* data = nullptr;                  // of `recurring`
  std::string_view name;                 // of `recurring`, once it is agreed
  // Of `recurring` and `operations`, when they have started. Most have one.
  std::shared_ptr<Carrier> carrier;
  std::vector<std::shared_ptr<Carrier>> more_carriers;
  std::shared_ptr<const std::string> description;
  std::exception_ptr error;
  std::mutex resting;  // held by the thread that calls `rest` or waits for the carriers

  Rest rest;    // of what `start` has started
  Start start;  // empty: `recurring` or `operations` are to be started
  std::vector<Operation> operations;

  void add(const std::shared_ptr<Carrier>& another) {
    if (!carrier) {
      carrier = another;
    } else if ((more_carriers.empty() ? carrier : more_carriers.back()) != another) {
      more_carriers.push_back(another);
    }
  }
};

}  // namespace stretto::comm
