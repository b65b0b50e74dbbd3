// How the command ends early: Ctrl-C, a termination signal, or a reader that closed the pipe.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace stretto::cli {

// While one exists, SIGINT, SIGTERM, SIGHUP and SIGPIPE run what is registered (OnSignal) and then
// end the process by the same signal, quickly and without a word: a shell sees 130 for Ctrl-C, 141
// for a closed pipe. At most one at a time. Child processes start with the default actions.
class EndOnSignals {
 public:
  EndOnSignals();
  ~EndOnSignals();  // puts back what was there before
  EndOnSignals(const EndOnSignals&) = delete;
  EndOnSignals& operator=(const EndOnSignals&) = delete;

 private:
  std::thread watcher_;
};

// While one exists, a signal that ends the process runs `action` first, on another thread, the
// newest first. The destructor does not run it.
class OnSignal {
 public:
  explicit OnSignal(std::function<void()> action);
  ~OnSignal();
  OnSignal(const OnSignal&) = delete;
  OnSignal& operator=(const OnSignal&) = delete;

 private:
  int id_;
};

}  // namespace stretto::cli
