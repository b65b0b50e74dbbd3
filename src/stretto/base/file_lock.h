// One process at a time, and one thread of it: a lock that lives in a file and ends with its
// holder.
#pragma once

#include <string>

namespace stretto {

class FileLock {
 public:
  // Locks `path`, which is created if need be and never removed; waits up to `patience_s` seconds.
  // Never throws for what the file system refuses: ask held().
  FileLock(const std::string& path, double patience_s);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return held_; }
  // Why it is not held; empty when it is.
  const std::string& problem() const { return problem_; }

 private:
  int fd_ = -1;
  bool held_ = false;
  std::string problem_;
};

}  // namespace stretto
