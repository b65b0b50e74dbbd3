// A child process that answers lines with lines.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "signals.h"
#include "verbs.h"

namespace stretto::cli {

class WorkerProcess {
 public:
  // Starts `arguments[0]`, looked up in PATH, its standard input and output connected to us; its
  // standard error goes to `error_file`. Throws EnvironmentProblem when that is not possible.
  WorkerProcess(const std::vector<std::string>& arguments, const std::string& error_file);
  // Ends the child and what it has started, by force if it does not go by itself, and at once while
  // an exception is under way.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // False when the child is gone.
  bool send(const std::string& line);
  // The next line without its end; nothing when the child is gone or silent for `timeout_s`.
  std::optional<std::string> receive(double timeout_s);
  // What has come of a line whose end has not: all that is left of a child that is gone.
  const std::string& unfinished_line() const { return buffer_; }
  // "was killed by signal 11 (Segmentation fault)" or "exited with code 1"; empty while it runs.
  std::string how_it_ended();
  pid_t pid() const { return pid_; }
  // Returns when its threads have stopped burning processor time, or after `timeout_s`.
  void wait_until_idle(double timeout_s) const;

 private:
  bool ends_within(double timeout_s);

  std::mutex starting_;  // while pid_ is not known yet
  pid_t pid_ = -1;       // also of its process group
  int socket_ = -1;
  std::optional<int> status_;  // of waitpid, once it has ended
  std::optional<OnSignal> on_signal_;
  std::string buffer_;
};

// For a `python` that lacks the package.
EnvironmentProblem no_package(const std::string& python);

}  // namespace stretto::cli
