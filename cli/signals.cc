#include "signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>

#include "stretto/base/file.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
constexpr unsigned char kStop = 0;

// A handler reaches nothing but globals. It only writes the signal's number to a pipe: the watcher
// thread may do what a handler may not.
int pipe_ends[2] = {-1, -1};
std::array<struct sigaction, kSignals.size()> before;

struct Actions {
  std::mutex lock;
  std::map<int, std::function<void()>, std::greater<>> by_id;
  int next = 0;
};

Actions& actions() {
  static Actions all;
  return all;
}

void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = write(pipe_ends[1], &byte, 1);
  errno = saved;
}

void end_by(int number) {
  {
    const std::lock_guard guard(actions().lock);
    for (const auto& [id, action] : actions().by_id) action();
  }
  remove_unfinished_files();
  signal(number, SIG_DFL);
  kill(getpid(), number);
  // The first process of a container ignores what it does not handle.
  _exit(128 + number);
}

void watch() {
  unsigned char byte = kStop;
  ssize_t count;
  do {
    count = read(pipe_ends[0], &byte, 1);
  } while (count < 0 && errno == EINTR);
  if (count == 1 && byte != kStop) end_by(byte);
}

}  // namespace

EndOnSignals::EndOnSignals() {
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw EnvironmentProblem("no file descriptors are left");
  watcher_ = std::thread(watch);
  struct sigaction ours = {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &ours, &before[i]);
}

EndOnSignals::~EndOnSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  [[maybe_unused]] const ssize_t written = write(pipe_ends[1], &kStop, 1);
  watcher_.join();
  for (int& end : pipe_ends) {
    close(end);
    end = -1;
  }
}

OnSignal::OnSignal(std::function<void()> action) {
  const std::lock_guard guard(actions().lock);
  id_ = actions().next++;
  actions().by_id.emplace(id_, std::move(action));
}

OnSignal::~OnSignal() {
  const std::lock_guard guard(actions().lock);
  actions().by_id.erase(id_);
}

}  // namespace stretto::cli
