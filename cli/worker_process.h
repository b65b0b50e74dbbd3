// A child process that answers lines with lines.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace stretto::cli {

class WorkerProcess {
 public:
  // Starts `arguments[0]`, looked up in PATH, its standard input and output connected to us and its
  // standard error dropped. Throws EnvironmentProblem when that is not possible.
  explicit WorkerProcess(const std::vector<std::string>& arguments);
  // Ends the child, by force if it does not go by itself.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // False when the child is gone.
  bool send(const std::string& line);
  // The next line without its end; nothing when the child is gone or silent for `timeout_s`.
  std::optional<std::string> receive(double timeout_s);
  // Returns when its threads have stopped burning processor time, or after `timeout_s`.
  void wait_until_idle(double timeout_s) const;

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string buffer_;
};

}  // namespace stretto::cli
