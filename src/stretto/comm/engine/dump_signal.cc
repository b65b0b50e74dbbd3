#include "stretto/comm/engine/dump_signal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/thread.h"
#include "stretto/comm/system/children.h"

namespace stretto::comm {
namespace {

constexpr int kSignal = SIGUSR2;
constexpr uint64_t kDump = 1, kEnd = uint64_t{1} << 32;  // added to the eventfd

// What the handler reads.
std::atomic<int> descriptor{-1};
std::atomic<pid_t> owner{0};

void on_signal(int) {
  const int before = errno;
  if (getpid() != owner.load()) {  // a forked child
    signal(kSignal, SIG_DFL);
    raise(kSignal);
  } else if (const int fd = descriptor.load(); fd >= 0) {
    const uint64_t one = kDump;
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
  }
  errno = before;
}

struct Watch {
  std::mutex life;   // held while the thread starts or ends
  std::mutex calls;  // held while functions are called
  std::map<uint64_t, std::function<void()>> dumps;
  uint64_t next = 1;
  std::thread thread;
};

// Never destroyed: its locks may be held in the parent when a process forks.
std::atomic<Watch*> shared{nullptr};

Watch& watch() {
  // After a fork: the parent's thread and locks are of no use here.
  static std::mutex making;
  static uint64_t made_at = 0;
  const std::lock_guard lock(making);
  if (!shared.load() || made_at != forks()) {
    made_at = forks();
    shared = new Watch;
    descriptor = -1;
  }
  return *shared.load();
}

bool handler_is(void (*handler)(int)) {
  struct sigaction now {};
  sigaction(kSignal, nullptr, &now);
  return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == handler;
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(kSignal, &action, nullptr);
}

// What runs between fork() and the child's own code must be allowed in a signal handler.
void disarm_in_child() {
  descriptor = -1;
  if (handler_is(on_signal)) install(SIG_DFL);
}

// The code of the handler goes, and the process perhaps.
[[gnu::destructor]] void disarm_at_exit() {
  if (handler_is(on_signal)) install(SIG_IGN);
}

void disarm_children() {
  [[maybe_unused]] static const int kRegistered = pthread_atfork(nullptr, nullptr, disarm_in_child);
}

void serve(Watch& w, int fd) {
  while (true) {
    uint64_t asked = 0;
    if (read(fd, &asked, sizeof asked) != sizeof asked) {
      if (errno == EINTR) continue;
      return;
    }
    if (asked >= kEnd) return;
    const std::lock_guard lock(w.calls);
    for (const auto& [id, dump] : w.dumps) dump();
  }
}

void start(Watch& w) {
  disarm_children();
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return;  // out of descriptors: the signal keeps its default action
  try {
    w.thread = start_thread("flight records", [&w, fd] { serve(w, fd); });
  } catch (const Unsupported&) {
    close(fd);
    return;
  }
  close_in_children(fd);
  owner = getpid();
  descriptor = fd;
  if (handler_is(SIG_DFL)) install(on_signal);
}

void end(Watch& w) {
  if (!w.thread.joinable()) return;
  const int fd = descriptor.exchange(-1);  // the handler stays, and does nothing
  [[maybe_unused]] const ssize_t written = write(fd, &kEnd, sizeof kEnd);
  w.thread.join();
  keep_in_children(fd);
  close(fd);
}

uint64_t add(std::function<void()> dump) {
  Watch& w = watch();
  const std::lock_guard life(w.life);
  uint64_t id = 0;
  bool first = false;
  {
    const std::lock_guard calls(w.calls);
    first = w.dumps.empty();
    id = w.next++;
    w.dumps.emplace(id, std::move(dump));
  }
  if (first) start(w);
  return id;
}

}  // namespace

DumpSignal::DumpSignal(std::function<void()> dump) : forks_(forks()), id_(add(std::move(dump))) {}

DumpSignal::~DumpSignal() {
  if (forks_ != forks()) return;  // the number may be that of an engine of this process
  Watch& w = watch();
  const std::lock_guard life(w.life);
  bool last = false;
  {
    const std::lock_guard calls(w.calls);
    w.dumps.erase(id_);
    last = w.dumps.empty();
  }
  if (last) end(w);
}

}  // namespace stretto::comm
