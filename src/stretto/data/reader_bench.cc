// Pieces of a large file that the system has forgotten, as a loader reads samples of a shard: told
// to the system 32 pieces ahead and read by pread (fadvise), or asked for by io_uring as far ahead,
// through the page cache (ring) or past it (direct). Reader does the first and the last. One
// thread.
//
// STRETTO_BENCH_FILE names a file of several gigabytes on the disk that is to be measured.
#include <benchmark/benchmark.h>

#if defined(__linux__)
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "stretto/data/direct_reads.h"
#include "stretto/data/read_file.h"
#include "stretto/data/ring.h"

namespace stretto::data {
namespace {

constexpr int64_t kPieces = 4000, kAhead = 32, kPieceBytes = 45'000;
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
      if (i < kAhead) room.emplace_back(std::aligned_alloc(4096, kRoom));
    }
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~Pieces() {
    if (fd >= 0) ::close(fd);
  }
  void forget() const { ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }
  DirectReads::Part part(int64_t i) const {
    return {.key = static_cast<uint64_t>(i),
            .offset = static_cast<uint64_t>(offsets[static_cast<size_t>(i)]),
            .bytes = kPieceBytes};
  }
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

void direct(benchmark::State& state) {
  Pieces pieces(state);
  const auto reads = DirectReads::make();
  const int file = reads == nullptr ? -1 : open_direct(pieces.fd);
  if (file < 0) state.SkipWithError("not possible here");
  for (auto _ : state) {
    state.PauseTiming();
    pieces.forget();
    state.ResumeTiming();
    for (int64_t i = 0; i < kPieces + kAhead; ++i) {
      if (i < kPieces && !reads->begin(pieces.part(i), file, nullptr)) {
        state.SkipWithError("a piece was not asked for");
        return;
      }
      if (i < kAhead) continue;
      auto* const to = static_cast<uint8_t*>(pieces.at(i));
      if (!reads->take(pieces.part(i - kAhead), {to, kPieceBytes})) {
        state.SkipWithError("a piece was not read");
        return;
      }
    }
  }
  ::close(file);
  state.SetItemsProcessed(state.iterations() * kPieces);
}

void ring(benchmark::State& state) {
  Pieces pieces(state);
  const auto ring = Ring::make(kAhead);
  if (pieces.fd < 0 || ring == nullptr) return state.SkipWithError("not possible here");
  for (auto _ : state) {
    state.PauseTiming();
    pieces.forget();
    std::vector<bool> ended(kPieces);
    state.ResumeTiming();
    for (int64_t i = 0; i < kPieces + kAhead; ++i) {
      while (i >= kAhead && !ended[static_cast<size_t>(i - kAhead)]) {
        const auto one = ring->ended();
        if (!one) {
          ring->wait();
        } else if (one->result == kPieceBytes) {
          ended[one->number] = true;
        } else {
          return state.SkipWithError("a piece was not read");
        }
      }
      if (i < kPieces && !ring->read(pieces.fd, pieces.part(i).offset, pieces.at(i), kPieceBytes,
                                     static_cast<uint64_t>(i))) {
        return state.SkipWithError("a piece was not asked for");
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * kPieces);
}

BENCHMARK(fadvise)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(ring)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(direct)->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace stretto::data
#endif
