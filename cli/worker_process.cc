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
#include <exception>
#include <filesystem>
#include <fstream>

#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"

extern char** environ;

namespace stretto::cli {
namespace {

constexpr double kPatience_s = 2;  // between asking a child to end and ending it
constexpr double kCheck_s = 0.1;
constexpr double kEnd_s = 0.5;
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

EnvironmentProblem no_package(const std::string& python) {
  return EnvironmentProblem(fmt::format(
      "{} cannot import the stretto package, which runs peers and ranks: {} -m pip install stretto",
      python, python));
}

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments,
                             const std::string& error_file) {
  // One socket for both directions: unlike a pipe it can be told not to raise SIGPIPE.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw EnvironmentProblem(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_file.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  // A group of its own: compilers that a peer starts end with it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  // A signal that comes meanwhile waits, or it would leave the child behind.
  on_signal_.emplace([this] {
    const std::lock_guard lock(starting_);
    if (pid_ > 0) kill(-pid_, SIGKILL);
  });
  int error = 0;
  {
    const std::lock_guard lock(starting_);
    error = posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
    if (error != 0) pid_ = -1;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  if (error != 0) {
    close(socket_);
    throw EnvironmentProblem(fmt::format("{}: {}", arguments[0], std::strerror(error)));
  }
}

WorkerProcess::~WorkerProcess() {
  on_signal_.reset();
  shutdown(socket_, SHUT_WR);
  if (!ends_within(std::uncaught_exceptions() > 0 ? 0 : kPatience_s)) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(socket_);
}

bool WorkerProcess::ends_within(double timeout_s) {
  const double give_up = now_s() + timeout_s;
  while (!status_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != 0) {
      status_ = status;
    } else if (now_s() >= give_up) {
      return false;
    } else {
      usleep(10'000);
    }
  }
  return true;
}

std::string WorkerProcess::how_it_ended() {
  // Its end of the socket closes a little before the process can be waited for.
  if (!ends_within(kEnd_s)) return "";
  if (WIFSIGNALED(*status_)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(*status_),
                       strsignal(WTERMSIG(*status_)));
  }
  return fmt::format("exited with code {}", WEXITSTATUS(*status_));
}

void WorkerProcess::wait_until_idle(double timeout_s) const {
  const double give_up = now_s() + timeout_s;
  double used = processor_s(pid_);
  while (now_s() < give_up) {
    check_interrupt();
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
    if (left_s <= 0) return std::nullopt;
    const int got = poll(&ready, 1, static_cast<int>(1 + std::min(left_s, kCheck_s) * 1000));
    check_interrupt();
    if (got == 0 || (got < 0 && errno == EINTR)) continue;
    if (got < 0) return std::nullopt;
    char chunk[65536];
    const ssize_t count = recv(socket_, chunk, sizeof chunk, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    buffer_.append(chunk, static_cast<size_t>(count));
  }
}

}  // namespace stretto::cli
