#include "stretto/comm/link/shm.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "stretto/comm/system/descriptors.h"

namespace stretto::comm {
namespace {

constexpr uint64_t kRingBytes = 1 << 20;  // per direction; a power of two

struct Ring {
  alignas(64) std::atomic<uint64_t> written;  // bytes, ever
  std::atomic<uint32_t> reader_sleeps;
  alignas(64) std::atomic<uint64_t> consumed;
  std::atomic<uint32_t> writer_sleeps;
  alignas(64) std::byte data[kRingBytes];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct Segment {
  Ring from_creator, to_creator;
};

bool send_descriptors(int socket, const int* fds, size_t count) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{.msg_iov = &part,
                 .msg_iovlen = 1,
                 .msg_control = control,
                 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds, count * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

class ShmPipe : public Pipe {
 public:
  ShmPipe(Fd socket, bool creator)
      : socket_(std::move(socket)),
        bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        creator_(creator) {}
  ~ShmPipe() override {
    if (segment_) munmap(segment_, sizeof(Segment));
  }

  bool begin() {
    if (!bell_) return false;
    if (!creator_) {
      const int fd = bell_.get();
      // A creator that has left already needs no bell, and what it wrote can still be read.
      return send_descriptors(socket_.get(), &fd, 1) || errno == EPIPE;
    }
    Fd memory(memfd_create("stretto", MFD_CLOEXEC));
    if (!memory || ftruncate(memory.get(), sizeof(Segment)) != 0 || !map(memory.get()))
      return false;
    const int fds[2] = {bell_.get(), memory.get()};
    return send_descriptors(socket_.get(), fds, 2);
  }

  int64_t write(std::span<const iovec> parts) override {
    if (!segment_) return kWouldBlock;
    Ring& ring = out();
    const uint64_t head = ring.written.load(std::memory_order_relaxed);
    uint64_t used = head - ring.consumed.load(std::memory_order_acquire);
    if (used == kRingBytes) {
      // Sets the flag, then looks again: the reader may have read before it saw the flag.
      ring.writer_sleeps.store(1, std::memory_order_seq_cst);
      used = head - ring.consumed.load(std::memory_order_seq_cst);
      if (used == kRingBytes) return kWouldBlock;
    }
    if (used > kRingBytes) return broken("the ring is damaged");
    uint64_t room = kRingBytes - used, wrote = 0;
    for (const iovec& part : parts) {
      const uint64_t step = std::min<uint64_t>(room, part.iov_len);
      const uint64_t at = (head + wrote) % kRingBytes;
      const uint64_t first = std::min(step, kRingBytes - at);
      const auto* from = static_cast<const std::byte*>(part.iov_base);
      std::memcpy(ring.data + at, from, first);
      std::memcpy(ring.data, from + first, step - first);
      wrote += step;
      room -= step;
      if (room == 0) break;
    }
    ring.written.store(head + wrote, std::memory_order_seq_cst);
    if (ring.reader_sleeps.load(std::memory_order_seq_cst) != 0 &&
        ring.reader_sleeps.exchange(0) != 0)
      ring_bell();
    return static_cast<int64_t>(wrote);
  }

  int64_t read(std::span<const iovec> parts) override {
    if (!take_descriptors()) return reason_.empty() ? kWouldBlock : kBroken;
    Ring& ring = in();
    const uint64_t tail = ring.consumed.load(std::memory_order_relaxed);
    uint64_t available = ring.written.load(std::memory_order_acquire) - tail, got = 0;
    if (available > kRingBytes) return broken("the ring is damaged");
    if (available == 0) {
      if (!gone()) return kWouldBlock;
      // It may have written after the last look and before its end.
      available = ring.written.load(std::memory_order_acquire) - tail;
      if (available == 0) return broken("closed by the remote rank");
    }
    for (const iovec& part : parts) {
      const uint64_t step = std::min<uint64_t>(available, part.iov_len);
      const uint64_t at = (tail + got) % kRingBytes;
      const uint64_t first = std::min(step, kRingBytes - at);
      auto* to = static_cast<std::byte*>(part.iov_base);
      std::memcpy(to, ring.data + at, first);
      std::memcpy(to + first, ring.data, step - first);
      got += step;
      available -= step;
      if (available == 0) break;
    }
    ring.consumed.store(tail + got, std::memory_order_seq_cst);
    if (ring.writer_sleeps.load(std::memory_order_seq_cst) != 0 &&
        ring.writer_sleeps.exchange(0) != 0)
      ring_bell();
    return static_cast<int64_t>(got);
  }

  std::vector<int> descriptors() const override { return {bell_.get(), socket_.get()}; }

  bool prepare_to_sleep() override {
    if (!segment_) return false;
    Ring& ring = in();
    ring.reader_sleeps.store(1, std::memory_order_seq_cst);
    return ring.written.load(std::memory_order_seq_cst) !=
           ring.consumed.load(std::memory_order_relaxed);
  }

  bool look() override {
    if (!segment_) return false;
    Ring& ring = in();
    return ring.written.load(std::memory_order_acquire) !=
           ring.consumed.load(std::memory_order_relaxed);
  }

  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  Ring& in() const { return creator_ ? segment_->to_creator : segment_->from_creator; }
  Ring& out() const { return creator_ ? segment_->from_creator : segment_->to_creator; }

  int64_t broken(const char* reason) {
    reason_ = reason;
    return kBroken;
  }

  bool map(int memory) {
    void* at = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (at == MAP_FAILED) return false;
    segment_ = static_cast<Segment*>(at);
    return true;
  }

  void ring_bell() {
    const uint64_t one = 1;
    if (!other_bell_) return;  // not received yet: take_descriptors rings when it arrives
    [[maybe_unused]] const ssize_t wrote = ::write(other_bell_.get(), &one, sizeof one);
  }

  // True once the remote rank's doorbell and the memory have arrived.
  bool take_descriptors() {
    if (other_bell_) return true;
    char byte;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr message{.msg_iov = &part,
                   .msg_iovlen = 1,
                   .msg_control = control,
                   .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (message.msg_flags & MSG_CTRUNC) {
      reason_ = fmt::format("cannot take shared memory: {}", descriptor_advice(creator_ ? 1 : 2));
      return false;
    }
    const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
    const size_t count = creator_ ? 1 : 2;
    if (!header || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(count * sizeof(int))) {
      reason_ = "closed by the remote rank";
      return false;
    }
    int fds[2] = {-1, -1};
    std::memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    other_bell_ = Fd(fds[0]);
    if (!creator_) {
      Fd memory(fds[1]);
      if (!map(memory.get())) {
        reason_ = fmt::format("cannot map shared memory: {}", std::strerror(errno));
        return false;
      }
    }
    ring_bell();  // for data written before the doorbell arrived
    return true;
  }

  bool gone() const {
    char byte;
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  Fd socket_, bell_, other_bell_;
  const bool creator_;
  Segment* segment_ = nullptr;
  std::string name_ = "shm", reason_;
};

}  // namespace

std::unique_ptr<Pipe> shm_pipe(Fd socket, bool creator, std::string* reason) {
  auto pipe = std::make_unique<ShmPipe>(std::move(socket), creator);
  if (pipe->begin()) return pipe;
  *reason = std::strerror(errno);
  return nullptr;
}

}  // namespace stretto::comm
