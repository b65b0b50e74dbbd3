// One stream of bytes to one peer, whatever carries it. Nothing here blocks.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stretto::comm {

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Of read and write: the number of bytes moved, or one of these.
inline constexpr int64_t kWouldBlock = 0;
inline constexpr int64_t kBroken = -1;  // Pipe::reason() says why

class Pipe {
 public:
  virtual ~Pipe() = default;
  virtual int64_t write(std::span<const iovec> parts) = 0;
  virtual int64_t read(std::span<const iovec> parts) = 0;

  // What epoll shall watch, edge-triggered, for reading and writing. An event on any of them means:
  // try both again.
  virtual std::vector<int> descriptors() const = 0;
  // To be called before sleeping: true when there is something to read that no event will tell
  // about.
  virtual bool prepare_to_sleep() = 0;
  // The same without an intent to sleep: nobody need wake this side.
  virtual bool look() { return prepare_to_sleep(); }

  // For pipes whose descriptors do not report EPOLLOUT: nothing can be written at first, and
  // whether there is room since a write found none, to be asked after reads and before sleeping.
  virtual bool starts_full() const { return false; }
  virtual bool regained_room() { return false; }

  virtual const std::string& name() const = 0;    // "tcp 10.0.0.1 -> 10.0.0.2:4242"
  virtual const std::string& reason() const = 0;  // of kBroken
};

}  // namespace stretto::comm
