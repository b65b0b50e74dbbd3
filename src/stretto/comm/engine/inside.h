// A caller inside a method of the engine.
#pragma once

#include "stretto/comm/engine/engine_impl.h"

namespace stretto::comm {

// A wait of the caller's thread asks so often whether it is interrupted.
inline constexpr double kInterruptible_s = 0.1;

class EngineImpl::Inside {
 public:
  explicit Inside(EngineImpl& engine) : engine_(engine) {
    // A forked child has no progress thread, and its copy of the lock may be locked for ever.
    if (engine.forks_ != forks())
      throw_invalid(
          "engine: it was made before fork(), and works only in the process that made "
          "it");
    lock = engine.callers_.lock(engine.mutex_);
    ++engine.inside_;
  }
  ~Inside() {
    if (!lock.owns_lock()) lock.lock();
    if (--engine_.inside_ == 0 && engine_.closed_) engine_.exit_wake_.notify_all();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  void require_open() const {
    if (engine_.closed_) throw CommError(engine_.membership_.rank, "", "the engine was closed");
  }

  Lock lock;

 private:
  EngineImpl& engine_;
};

}  // namespace stretto::comm
