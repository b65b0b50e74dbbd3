#include "stretto/data/ring.h"

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

#if defined(IORING_FEAT_RW_CUR_POS)
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#endif

namespace stretto::data {

#if defined(IORING_FEAT_RW_CUR_POS)

namespace {

class Mapped {
 public:
  ~Mapped() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  Mapped() = default;
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  bool map(int fd, size_t bytes, uint64_t what) {
    void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                              static_cast<off_t>(what));
    if (data == MAP_FAILED) return false;
    data_ = data;
    bytes_ = bytes;
    // A child of fork() has no use for it, and must not disturb it.
    ::madvise(data, bytes, MADV_DONTFORK);
    return true;
  }
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace

struct Ring::Queues {
  ~Queues() {
    if (fd >= 0) ::close(fd);
  }

  bool open(unsigned entries) {
    io_uring_params p{};
    fd = static_cast<int>(::syscall(SYS_io_uring_setup, entries, &p));
    // The feature came with IORING_OP_READ.
    if (fd < 0 || (p.features & IORING_FEAT_RW_CUR_POS) == 0) return false;
    if (!submissions.map(fd, p.sq_off.array + p.sq_entries * sizeof(unsigned),
                         IORING_OFF_SQ_RING) ||
        !completions.map(fd, p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe),
                         IORING_OFF_CQ_RING) ||
        !requests.map(fd, p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES)) {
      return false;
    }
    sqes = requests.at<io_uring_sqe>(0);
    sq_tail = submissions.at<unsigned>(p.sq_off.tail);
    sq_array = submissions.at<unsigned>(p.sq_off.array);
    sq_mask = p.sq_entries - 1;
    cq_head = completions.at<unsigned>(p.cq_off.head);
    cq_tail = completions.at<unsigned>(p.cq_off.tail);
    cqes = completions.at<io_uring_cqe>(p.cq_off.cqes);
    cq_mask = p.cq_entries - 1;
    return true;
  }

  long enter(unsigned submitted, unsigned awaited, unsigned flags) const {
    long result = 0;
    do result = ::syscall(SYS_io_uring_enter, fd, submitted, awaited, flags, nullptr, 0);
    while (result < 0 && errno == EINTR);
    return result;
  }

  int fd = -1;
  Mapped submissions, completions, requests;
  io_uring_sqe* sqes = nullptr;
  io_uring_cqe* cqes = nullptr;
  unsigned *sq_tail = nullptr, *sq_array = nullptr, *cq_head = nullptr, *cq_tail = nullptr;
  unsigned sq_mask = 0, cq_mask = 0;
};

std::unique_ptr<Ring> Ring::make(unsigned entries) {
  auto queues = std::make_unique<Queues>();
  if (!queues->open(entries)) return nullptr;
  std::unique_ptr<Ring> ring(new Ring(std::move(queues)));
  // A filter may let the ring be made and not be used.
  if (!ring->submit(IORING_OP_NOP, -1, 0, nullptr, 0, 0)) return nullptr;
  std::optional<Ended> nothing = ring->ended();
  if (!nothing && ring->queues_->enter(0, 1, IORING_ENTER_GETEVENTS) >= 0) nothing = ring->ended();
  if (!nothing || nothing->result < 0) return nullptr;
  return ring;
}

bool Ring::submit(uint8_t operation, int fd, uint64_t offset, void* to, uint32_t bytes,
                  uint64_t number) {
  Queues& q = *queues_;
  const unsigned tail = *q.sq_tail, at = tail & q.sq_mask;
  q.sqes[at] = {};
  q.sqes[at].opcode = operation;
  q.sqes[at].fd = fd;
  q.sqes[at].off = offset;
  q.sqes[at].addr = reinterpret_cast<uint64_t>(to);
  q.sqes[at].len = bytes;
  q.sqes[at].user_data = number;
  q.sq_array[at] = at;
  std::atomic_ref(*q.sq_tail).store(tail + 1, std::memory_order_release);
  if (q.enter(1, 0, 0) == 1) return true;
  // It was not taken, and is not to be taken with the next one.
  std::atomic_ref(*q.sq_tail).store(tail, std::memory_order_release);
  return false;
}

bool Ring::read(int fd, uint64_t offset, void* to, uint32_t bytes, uint64_t number) {
  return submit(IORING_OP_READ, fd, offset, to, bytes, number);
}

std::optional<Ring::Ended> Ring::ended() {
  Queues& q = *queues_;
  const unsigned head = *q.cq_head;
  if (std::atomic_ref(*q.cq_tail).load(std::memory_order_acquire) == head) return std::nullopt;
  const io_uring_cqe& e = q.cqes[head & q.cq_mask];
  const Ended ended{.number = e.user_data, .result = e.res};
  std::atomic_ref(*q.cq_head).store(head + 1, std::memory_order_release);
  return ended;
}

void Ring::wait() const {
  // A filter that came later may refuse it. Reads end all the same.
  if (queues_->enter(0, 1, IORING_ENTER_GETEVENTS) < 0) ::usleep(200);
}

#else

struct Ring::Queues {};

std::unique_ptr<Ring> Ring::make(unsigned) { return nullptr; }
bool Ring::read(int, uint64_t, void*, uint32_t, uint64_t) { return false; }
std::optional<Ring::Ended> Ring::ended() { return std::nullopt; }
void Ring::wait() const {}

#endif

Ring::Ring(std::unique_ptr<Queues> queues) : queues_(std::move(queues)) {}
Ring::~Ring() = default;

}  // namespace stretto::data
