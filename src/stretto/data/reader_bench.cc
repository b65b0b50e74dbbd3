// Pieces of a large file that the system has forgotten, as a loader reads samples of a shard: told
// to the system 32 pieces ahead and read by pread (fadvise), which is what Reader does, or asked
// for by io_uring as far ahead, through the page cache (ring) or past it (ring_direct). One thread.
//
// STRETTO_BENCH_FILE names a file of several gigabytes on the disk that is to be measured.
#include <benchmark/benchmark.h>

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "stretto/data/read_file.h"

namespace stretto::data {
namespace {

constexpr int64_t kPieces = 4000, kAhead = 32, kPieceBytes = 45'000, kBlock = 4096;
constexpr size_t kRoom = 64 << 10;

struct Freed {
  void operator()(void* p) const { std::free(p); }
};

struct Pieces {
  explicit Pieces(benchmark::State& state) {
    const char* const name = std::getenv("STRETTO_BENCH_FILE");
    if (name == nullptr) {
      state.SkipWithError("STRETTO_BENCH_FILE names no file");
      return;
    }
    path = name;
    const auto size = static_cast<int64_t>(ReadFile(path).size());
    std::mt19937_64 random(7);
    for (int64_t i = 0; i < kPieces; ++i) {
      offsets.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(size - 2 * kRoom)));
      if (i < kAhead) room.emplace_back(std::aligned_alloc(kBlock, kRoom));
    }
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~Pieces() {
    if (fd >= 0) ::close(fd);
  }
  void forget() const { ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }
  void* at(int64_t i) { return room[static_cast<size_t>(i % kAhead)].get(); }

  std::string path;
  std::vector<int64_t> offsets;
  std::vector<std::unique_ptr<void, Freed>> room;
  int fd = -1;
};

void fadvise(benchmark::State& state) {
  Pieces pieces(state);
  for (auto _ : state) {
    state.PauseTiming();
    pieces.forget();
    state.ResumeTiming();
    for (int64_t i = 0; i < kPieces + kAhead; ++i) {
      if (i < kPieces) {
        ::posix_fadvise(pieces.fd, pieces.offsets[static_cast<size_t>(i)], kPieceBytes,
                        POSIX_FADV_WILLNEED);
      }
      if (i < kAhead) continue;
      const int64_t at = pieces.offsets[static_cast<size_t>(i - kAhead)];
      if (::pread(pieces.fd, pieces.at(i), kPieceBytes, at) != kPieceBytes) {
        state.SkipWithError("a piece was not read");
        return;
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * kPieces);
}

// As little of io_uring as reads one piece after the other.
class Ring {
 public:
  Ring() {
    io_uring_params p{};
    fd_ = static_cast<int>(::syscall(SYS_io_uring_setup, kAhead, &p));
    if (fd_ < 0) return;
    const auto map = [this](size_t bytes, off_t what) {
      return static_cast<char*>(
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, what));
    };
    char* const s = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char* const c = map(p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    sqes_ = reinterpret_cast<io_uring_sqe*>(
        map(p.sq_entries * sizeof(io_uring_sqe), static_cast<off_t>(IORING_OFF_SQES)));
    sq_tail_ = reinterpret_cast<unsigned*>(s + p.sq_off.tail);
    sq_array_ = reinterpret_cast<unsigned*>(s + p.sq_off.array);
    sq_mask_ = p.sq_entries - 1;
    cq_head_ = reinterpret_cast<unsigned*>(c + p.cq_off.head);
    cq_tail_ = reinterpret_cast<unsigned*>(c + p.cq_off.tail);
    cqes_ = reinterpret_cast<io_uring_cqe*>(c + p.cq_off.cqes);
    cq_mask_ = p.cq_entries - 1;
  }
  ~Ring() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool there() const { return fd_ >= 0; }

  void ask(int file, int64_t offset, int64_t bytes, void* to, uint64_t number) {
    const unsigned tail = *sq_tail_, at = tail & sq_mask_;
    sqes_[at] = {};
    sqes_[at].opcode = IORING_OP_READ;
    sqes_[at].fd = file;
    sqes_[at].off = static_cast<uint64_t>(offset);
    sqes_[at].addr = reinterpret_cast<uint64_t>(to);
    sqes_[at].len = static_cast<unsigned>(bytes);
    sqes_[at].user_data = number;
    sq_array_[at] = at;
    std::atomic_ref(*sq_tail_).store(tail + 1, std::memory_order_release);
    ::syscall(SYS_io_uring_enter, fd_, 1, 0, 0, nullptr, 0);
  }

  // Which one ended; its result is at least `least`, or -1 is returned.
  int64_t wait(int least) {
    const unsigned head = *cq_head_;
    while (std::atomic_ref(*cq_tail_).load(std::memory_order_acquire) == head) {
      ::syscall(SYS_io_uring_enter, fd_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    }
    const io_uring_cqe& done = cqes_[head & cq_mask_];
    const int64_t number = done.res < least ? -1 : static_cast<int64_t>(done.user_data);
    std::atomic_ref(*cq_head_).store(head + 1, std::memory_order_release);
    return number;
  }

 private:
  int fd_;
  unsigned *sq_tail_, *sq_array_, *cq_head_, *cq_tail_;
  unsigned sq_mask_, cq_mask_;
  io_uring_sqe* sqes_;
  io_uring_cqe* cqes_;
};

void ring(benchmark::State& state, bool direct) {
  Pieces pieces(state);
  if (pieces.fd < 0) return;
  const int file =
      direct ? ::open(pieces.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT) : ::dup(pieces.fd);
  Ring ring;
  if (file < 0 || !ring.there()) state.SkipWithError("not possible here");
  for (auto _ : state) {
    state.PauseTiming();
    pieces.forget();
    std::vector<bool> ended(kPieces);
    state.ResumeTiming();
    for (int64_t i = 0; i < kPieces + kAhead; ++i) {
      while (i >= kAhead && !ended[static_cast<size_t>(i - kAhead)]) {
        const int64_t number = ring.wait(kPieceBytes);
        if (number < 0) {
          state.SkipWithError("a piece was not read");
          return;
        }
        ended[static_cast<size_t>(number)] = true;
      }
      if (i >= kPieces) continue;
      int64_t begin = pieces.offsets[static_cast<size_t>(i)], end = begin + kPieceBytes;
      if (direct) {
        begin = begin / kBlock * kBlock;
        end = (end + kBlock - 1) / kBlock * kBlock;
      }
      ring.ask(file, begin, end - begin, pieces.at(i), static_cast<uint64_t>(i));
    }
  }
  ::close(file);
  state.SetItemsProcessed(state.iterations() * kPieces);
}

BENCHMARK(fadvise)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(ring, ring, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(ring, ring_direct, true)->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace stretto::data
#endif
