// For tests of several processes: ranks as children, which are forked before any thread exists.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm::testing {

// A folder that goes away.
struct Folder {
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "stretto-faults-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// Two pipes to a child: lines from it, and a nudge to it.
struct Wire {
  Fd from_child, to_child;
  std::string heard;  // not yet a whole line
};

// What a child has of them.
struct Child {
  int mouth, ear;
  void say(std::string line) const {
    line += '\n';
    [[maybe_unused]] const ssize_t wrote = write(mouth, line.data(), line.size());
  }
  void await_nudge() const {
    char byte;
    [[maybe_unused]] const ssize_t got = read(ear, &byte, 1);
  }
};

// Child processes by number; those that are left are killed in the end.
class Processes {
 public:
  Processes() { ::signal(SIGPIPE, SIG_IGN); }  // a nudge to one that is no more
  ~Processes() {
    for (auto& [number, pid] : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  void start(int number, const std::function<void(const Child&)>& body) {
    int out[2], in[2];
    STRETTO_CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0, "no pipes left");
    const pid_t pid = fork();
    STRETTO_CHECK(pid >= 0, "cannot fork");
    if (pid == 0) {
      close(out[0]);
      close(in[1]);
      const Child child{out[1], in[0]};
      try {
        body(child);
      } catch (const std::exception& e) {
        child.say(fmt::format("failed: {}", e.what()));
      }
      _exit(0);
    }
    close(out[1]);
    close(in[0]);
    wires_[number] = {Fd(out[0]), Fd(in[1]), ""};
    pids_[number] = pid;
  }

  void signal(int number, int what) { kill(pids_.at(number), what); }
  void nudge(int number) {
    [[maybe_unused]] const ssize_t wrote = write(wires_.at(number).to_child.get(), "!", 1);
  }

  // The next line that a child says; "(nothing)" when the time is up, "(ended)" when it is no more.
  std::string line(int number, double timeout_s) {
    Wire& wire = wires_.at(number);
    const double deadline = now_s() + timeout_s;
    while (true) {
      const size_t end = wire.heard.find('\n');
      if (end != std::string::npos) {
        std::string line = wire.heard.substr(0, end);
        wire.heard.erase(0, end + 1);
        return line;
      }
      pollfd ready{.fd = wire.from_child.get(), .events = POLLIN, .revents = 0};
      const double left = deadline - now_s();
      if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) <= 0)
        return "(nothing)";
      char text[4096];
      const ssize_t got = read(wire.from_child.get(), text, sizeof text);
      if (got <= 0) return "(ended)";
      wire.heard.append(text, static_cast<size_t>(got));
    }
  }

 private:
  std::map<int, pid_t> pids_;
  std::map<int, Wire> wires_;
};

}  // namespace stretto::comm::testing
