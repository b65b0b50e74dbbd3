#include "worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "stretto/base/clock.h"
#include "verbs.h"

extern char** environ;

namespace stretto::cli {
namespace {

constexpr double kPatience_s = 2;  // between asking a child to end and ending it
constexpr double kSample_s = 5e-3;
constexpr double kIdleShare = 0.02;  // of one core

// Processor time that all threads of a process have used; 0 where the system does not tell.
double processor_s(pid_t pid) {
  std::error_code gone;
  double sum = 0;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), gone)) {
    double ns = 0;
    if (std::ifstream(task.path() / "schedstat") >> ns) sum += ns * 1e-9;
  }
  return sum;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments) {
  // One socket for both directions: unlike a pipe it can be told not to raise SIGPIPE.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw EnvironmentProblem(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int error = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  if (error != 0) {
    close(socket_);
    throw EnvironmentProblem(fmt::format("{}: {}", arguments[0], std::strerror(error)));
  }
}

WorkerProcess::~WorkerProcess() {
  shutdown(socket_, SHUT_WR);
  const double give_up = now_s() + kPatience_s;
  bool ended = false;
  while (!ended && now_s() < give_up) {
    ended = waitpid(pid_, nullptr, WNOHANG) != 0;
    if (!ended) usleep(10'000);
  }
  if (!ended) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(socket_);
}

void WorkerProcess::wait_until_idle(double timeout_s) const {
  const double give_up = now_s() + timeout_s;
  double used = processor_s(pid_);
  while (now_s() < give_up) {
    usleep(static_cast<useconds_t>(kSample_s * 1e6));
    const double before = used;
    used = processor_s(pid_);
    if (used - before < kIdleShare * kSample_s) return;
  }
}

bool WorkerProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t sent = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += static_cast<size_t>(sent);
  }
  return true;
}

std::optional<std::string> WorkerProcess::receive(double timeout_s) {
  const double deadline = now_s() + timeout_s;
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    const double left_s = deadline - now_s();
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    const int got = left_s > 0 ? poll(&ready, 1, static_cast<int>(1 + left_s * 1000)) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    char chunk[65536];
    const ssize_t count = recv(socket_, chunk, sizeof chunk, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    buffer_.append(chunk, static_cast<size_t>(count));
  }
}

}  // namespace stretto::cli
