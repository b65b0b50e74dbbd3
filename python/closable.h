// A C++ object that one Python thread may close while others are inside of it.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"

namespace stretto::python {

// The interpreter's lock protects everything but what Use says.
template <typename T>
class Closable {
 public:
  // One call from Python. The object lives as long as it does.
  class Use {
   public:
    explicit Use(Closable& owner) : owner_(owner), object_(owner.object_) {
      if (!object_ || owner.closing_) throw_invalid("{}: closed", owner.what_);
      owner_.users_.push_back(std::this_thread::get_id());
    }
    // With the interpreter's lock, as the constructor.
    ~Use() {
      auto& users = owner_.users_;
      users.erase(std::find(users.begin(), users.end(), std::this_thread::get_id()));
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    // These need no lock.
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }
    // To be called at least every 0.1 s by calls that block and that `wake` does not end. Throws
    // when the object is being closed.
    void check() const {
      if (owner_.closing_) throw CommError(-1, "", owner_.what_ + " was closed");
    }
    // The same for calls that `wake` ends, which must not return before: throws when the calling
    // thread closes the object while it is inside of it, as a signal handler can.
    void check_own() const {
      if (owner_.closer_ == std::this_thread::get_id()) check();
    }

   private:
    Closable& owner_;
    std::shared_ptr<T> object_;
  };

  explicit Closable(std::string what) : what_(std::move(what)) {}
  Closable(const Closable&) = delete;
  Closable& operator=(const Closable&) = delete;

  void open(std::shared_ptr<T> object) { object_ = std::move(object); }
  // For objects that need this one. Throws when it is closed.
  std::shared_ptr<T> shared() {
    Use use(*this);
    return object_;
  }

  // Whether this is a child of the process that made it.
  bool forked() const { return forks_ != forks(); }

  // Sends the other threads away and releases the object. A thread may close what it is inside of,
  // for example in a signal handler: then the object ends with that call. `wake(object)` ends calls
  // that do not use check().
  template <typename Wake>
  void close(Wake&& wake) {
    closer_ = std::this_thread::get_id();
    closing_ = true;
    if (forked()) {
      // Its threads are not in this process, so its destructor could not end.
      if (object_) new std::shared_ptr<T>(std::move(object_));
      object_.reset();
      return;
    }
    while (object_ && others_are_inside()) {
      const std::shared_ptr<T> object = object_;
      nanobind::gil_scoped_release released;
      wake(*object);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::shared_ptr<T> last = std::move(object_);
    object_.reset();
    nanobind::gil_scoped_release released;
    last.reset();
  }

 private:
  bool others_are_inside() const {
    return std::any_of(users_.begin(), users_.end(),
                       [](std::thread::id id) { return id != std::this_thread::get_id(); });
  }

  const std::string what_;
  const uint64_t forks_ = forks();
  std::shared_ptr<T> object_;
  std::vector<std::thread::id> users_;
  std::atomic<bool> closing_ = false;
  std::atomic<std::thread::id> closer_{};
};

}  // namespace stretto::python
