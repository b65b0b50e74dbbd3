// A driver of CUDA that exists only in a test. It keeps books: whatever a real one would refuse is
// in faults().
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "stretto/data/pinned.h"

namespace stretto::data {

class FakeCuda {
 public:
  explicit FakeCuda(int devices = 2) : retained_(static_cast<size_t>(devices)) {
    driver.device_count = [this](int* count) {
      const std::lock_guard lock(mutex_);
      *count = static_cast<int>(retained_.size());
      return 0;
    };
    driver.primary_context_state = [this](int device, unsigned* flags, int* active) {
      const std::lock_guard lock(mutex_);
      *flags = 0;
      *active = device == in_use_;
      return 0;
    };
    driver.retain_primary_context = [this](void** context, int device) {
      const std::lock_guard lock(mutex_);
      if (device != in_use_) faults_.emplace_back("makes a context");
      ++retained_[static_cast<size_t>(device)];
      *context = &retained_[static_cast<size_t>(device)];
      return 0;
    };
    driver.release_primary_context = [this](int device) {
      const std::lock_guard lock(mutex_);
      if (--retained_[static_cast<size_t>(device)] < 0) faults_.emplace_back("released twice");
      return 0;
    };
    driver.push_context = [](void* context) {
      current().push_back(context);
      return 0;
    };
    driver.pop_context = [](void** context) {
      *context = current().back();
      current().pop_back();
      return 0;
    };
    driver.exchange_capture_mode = [](int* mode) {
      std::swap(capture_mode(), *mode);
      return 0;
    };
    driver.register_memory = [this](void* memory, size_t bytes, unsigned flags) {
      const std::lock_guard lock(mutex_);
      check("register");
      ++asked_;
      if (refuses_) return 801;
      const auto at = reinterpret_cast<uintptr_t>(memory);
      if (at % 4096 != 0 || bytes % 4096 != 0) faults_.emplace_back("not whole pages");
      if (flags != 1) faults_.emplace_back("not for all contexts");
      for (const auto& [begin, length] : registered_) {
        if (at < begin + length && begin < at + bytes) faults_.emplace_back("registered twice");
      }
      registered_[at] = bytes;
      return 0;
    };
    driver.unregister_memory = [this](void* memory) {
      const std::lock_guard lock(mutex_);
      check("unregister");
      if (registered_.erase(reinterpret_cast<uintptr_t>(memory)) == 0) {
        faults_.emplace_back("unregistered what is not");
      }
      return 0;
    };
    driver.error_name = [](int error, const char** name) {
      *name = error == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : nullptr;
      return 0;
    };
  }

  // From now on the process has a context on that device.
  void use(int device) {
    const std::lock_guard lock(mutex_);
    in_use_ = device;
  }
  void refuse() { refuses_ = true; }

  bool covers(const void* memory, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(memory);
    for (const auto& [begin, length] : registered_) {
      if (at >= begin && at + static_cast<uintptr_t>(bytes) <= begin + length) return true;
    }
    return false;
  }
  int64_t registered_bytes() {
    const std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const auto& [begin, length] : registered_) sum += static_cast<int64_t>(length);
    return sum;
  }
  int asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // Of contexts that are retained still.
  int retained() {
    const std::lock_guard lock(mutex_);
    int sum = 0;
    for (const int count : retained_) sum += count;
    return sum;
  }
  std::vector<std::string> faults() {
    const std::lock_guard lock(mutex_);
    return faults_;
  }

  CudaDriver driver;

 private:
  static std::vector<void*>& current() {
    thread_local std::vector<void*> contexts;
    return contexts;
  }
  static int& capture_mode() {
    thread_local int mode = 0;  // global
    return mode;
  }
  void check(const std::string& call) {
    if (current().size() != 1) faults_.push_back(call + " without a context");
    if (capture_mode() != 2) faults_.push_back(call + " would break the capture of a graph");
  }

  std::mutex mutex_;
  int in_use_ = -1, asked_ = 0;
  bool refuses_ = false;
  std::vector<int> retained_;
  std::map<uintptr_t, size_t> registered_;
  std::vector<std::string> faults_;
};

}  // namespace stretto::data
