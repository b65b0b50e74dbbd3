// SIGUSR2 asks every engine of the process for its flight record. The handler only writes to an
// eventfd; a thread that exists as long as an engine does reads it and calls the engines.
//
// The handler is installed only while the signal has its default action, and one that the program
// installs later replaces it. It stays when the engines are gone, so that a signal that comes too
// late ends no process. In a forked child the signal does what it did by default.
#pragma once

#include <cstdint>
#include <functional>

namespace stretto::comm {

class DumpSignal {
 public:
  // `dump` is called by another thread. It must not make or destroy a DumpSignal.
  explicit DumpSignal(std::function<void()> dump);
  // Waits for a call that is under way. Does nothing in a forked child.
  ~DumpSignal();
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;

 private:
  const uint64_t forks_;  // of the process that made it
  const uint64_t id_;
};

}  // namespace stretto::comm
