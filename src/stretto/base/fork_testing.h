// For tests: what a forked child makes of something.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stretto/base/clock.h"

namespace stretto {

// Runs `body` in a child that is forked now and returns the exit code that it returns: 0 to 255.
// Returns -1 and kills the child when it does not end within a minute, and when a signal ended it.
template <typename Body>
int in_a_child(const Body& body) {
#if defined(__SANITIZE_THREAD__)
  // One child in thousands hung under the thread sanitizer, in methods that take no lock of ours:
  // this lets other threads leave the sanitizer's allocator, which is the likely cause.
  usleep(100'000);
#endif
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  for (const double begin = now_s(); waitpid(pid, &status, WNOHANG) == 0; usleep(1000)) {
    if (now_s() - begin < 60) continue;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    break;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace stretto
