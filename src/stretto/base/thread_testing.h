// For tests, in a process of their own: no more threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <thread>

namespace stretto {

// Lets this process start no more threads. Limits do not bind root, so root becomes nobody. Exits
// with 3 where that does not work.
inline void forbid_threads() {
  const rlimit none{1, 1};
  if (geteuid() == 0 && setuid(65534) != 0) _exit(3);
  if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(3);
  try {
    std::thread([] {}).join();
    _exit(3);
  } catch (const std::system_error&) {
  }
}

}  // namespace stretto
