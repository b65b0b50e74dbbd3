#include "stretto/base/file_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "stretto/base/clock.h"

namespace stretto {

FileLock::FileLock(const std::string& path, double patience_s) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    problem_ = fmt::format("{}: cannot open: {}", path, std::strerror(errno));
    return;
  }
  const double end = now_s() + patience_s;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      problem_ = fmt::format("{}: cannot lock: {}", path, std::strerror(errno));
      return;
    }
    if (now_s() >= end) {
      problem_ = fmt::format("{}: another process has held it for {:g} s", path, patience_s);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  held_ = true;
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  // A child forked meanwhile shares the open file, and closing alone would leave it locked.
  if (held_) flock(fd_, LOCK_UN);
  ::close(fd_);
}

}  // namespace stretto
