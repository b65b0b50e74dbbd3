// A pipe carries one stream of bytes to a remote rank, over TCP, shared memory or RDMA. No method
// blocks.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/comm/link/frame_mac.h"

namespace stretto::comm {

// What read and write return: the number of bytes moved, or one of these.
inline constexpr int64_t kWouldBlock = 0;
inline constexpr int64_t kBroken = -1;  // closed for good; Pipe::reason() says why

class Pipe {
 public:
  virtual ~Pipe() = default;
  virtual int64_t write(std::span<const iovec> parts) = 0;
  virtual int64_t read(std::span<const iovec> parts) = 0;

  // What epoll watches, edge-triggered. An event on any descriptor means that reading and writing
  // should be tried again.
  virtual std::vector<int> descriptors() const = 0;
  // Called before the thread sleeps. True when there is something to read that will cause no event,
  // so that the thread must not sleep.
  virtual bool prepare_to_sleep() = 0;
  // The same while the thread does not sleep: the remote rank need not wake it.
  virtual bool look() { return prepare_to_sleep(); }

  // For pipes whose descriptors do not report EPOLLOUT. starts_full: nothing can be written at
  // first. regained_room: there is room again after a write found none; called after reads and
  // before sleeping.
  virtual bool starts_full() const { return false; }
  virtual bool regained_room() { return false; }

  // Bytes written that the remote rank's side has not acknowledged; -1 when that is not known.
  virtual int64_t held_bytes() const { return -1; }

  // Whether the network has taken all that was written. False when that is not known.
  virtual bool network_took_all() const { return false; }

  // Set before the pipe is given to a Link: its frames carry tags.
  std::optional<FrameKeys> keys;

  virtual const std::string& name() const = 0;    // "tcp 10.0.0.1 -> 10.0.0.2:4242"
  virtual const std::string& reason() const = 0;  // of kBroken
};

}  // namespace stretto::comm
