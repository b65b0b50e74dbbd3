// A thread that waits for messages and for callers at the same time, again and again. While it
// waits it polls the links, which saves two wake-ups for every message: that of the thread that
// would poll otherwise, and its own by that thread.
#pragma once

#include <functional>

#include "stretto/comm/engine/engine.h"

namespace stretto::comm {

class Attendance {
 public:
  explicit Attendance(Engine& engine) : engine_(engine) {}
  ~Attendance() { end(); }
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  // Returns when `until()` is true, which is asked whenever something arrives and after
  // Engine::call_attendants(), or after timeout_s seconds. Throws CommError when the engine is
  // closed.
  void wait(const std::function<bool()>& until, double timeout_s) {
    engine_.attend(until, timeout_s, !here_);
    here_ = true;
  }

  // Before the thread does what may take long: another thread polls until the next wait().
  void end() {
    if (here_) engine_.dismiss();
    here_ = false;
  }

 private:
  Engine& engine_;
  bool here_ = false;
};

}  // namespace stretto::comm
