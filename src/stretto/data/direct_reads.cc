#include "stretto/data/direct_reads.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "stretto/base/error.h"
#include "stretto/base/memory.h"

namespace stretto::data {
namespace {

// Where a read past the page cache has to begin and end, of any disk.
constexpr uint64_t kBlock = 4096;

// Whether the system has all of it in memory. Where it does not tell (Linux before 6.5, files of
// others), no.
bool in_page_cache([[maybe_unused]] int fd, [[maybe_unused]] uint64_t offset,
                   [[maybe_unused]] uint64_t bytes) {
#if defined(__linux__)
  constexpr long kCachestat = 451;  // SYS_cachestat, which not every <sys/syscall.h> has
  struct Range {
    uint64_t offset, bytes;
  } range{offset, bytes};
  struct Pages {
    uint64_t cached, dirty, written, evicted, recently_evicted;
  } pages{};
  if (::syscall(kCachestat, fd, &range, &pages, 0U) != 0) return false;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return pages.cached >= (offset + bytes - 1) / page - offset / page + 1;
#else
  return false;
#endif
}

}  // namespace

int open_direct([[maybe_unused]] int fd) {
#if defined(__linux__) && defined(O_DIRECT)
  // The same file, whatever has its name by now.
  return ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
#else
  return -1;
#endif
}

// Pages that no read has touched take no memory.
struct DirectReads::Memory {
  static constexpr size_t kEach = kMostBytes + 2 * kBlock, kAll = kPlaces * kEach;

  Memory() {
    take_memory(kAll);
    data = ::mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return_memory(kAll);
      throw_unsupported("loader: no memory for reads");
    }
#if defined(__linux__)
    // Else a page that is read into while the process forks may be the child's (open(2)).
    ::madvise(data, kAll, MADV_DONTFORK);
#endif
  }
  ~Memory() {
    ::munmap(data, kAll);
    return_memory(kAll);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data;
};

std::unique_ptr<DirectReads> DirectReads::make() {
  auto ring = Ring::make(kPlaces);
  if (ring == nullptr) return nullptr;
  try {
    return std::unique_ptr<DirectReads>(
        new DirectReads(std::move(ring), std::make_unique<Memory>()));
  } catch (const Unsupported&) {
    return nullptr;
  }
}

DirectReads::DirectReads(std::unique_ptr<Ring> ring, std::unique_ptr<Memory> memory)
    : ring_(std::move(ring)), memory_(std::move(memory)) {
  for (uint32_t i = kPlaces; i > 0; --i) free_.push_back(i - 1);
}

DirectReads::~DirectReads() {
  std::unique_lock lock(mutex_);
  while (under_way_ > 0) wait(lock);
}

std::byte* DirectReads::memory(uint32_t place) const {
  return static_cast<std::byte*>(memory_->data) + place * Memory::kEach;
}

void DirectReads::free_place(uint32_t place) {
  places_[place] = {};
  free_.push_back(place);
}

bool DirectReads::find_place(uint32_t& place) {
  if (free_.empty()) forget_old();
  if (free_.empty()) return false;
  place = free_.back();
  free_.pop_back();
  return true;
}

// Of samples that the loader left out after all: it was told to go on elsewhere.
void DirectReads::forget_old() {
  for (uint32_t i = 0; i < kPlaces; ++i) {
    const Place& place = places_[i];
    if (!place.used || place.under_way || place.awaited) continue;
    if (calls_ - place.call < kForgotten) continue;
    by_key_.erase(place.part.key);
    free_place(i);
  }
}

bool DirectReads::begin(const Part& part, int direct, std::shared_ptr<const void> keep) {
  if (direct < 0 || part.bytes == 0 || part.bytes > kMostBytes ||
      in_page_cache(direct, part.offset, part.bytes)) {
    return false;
  }
  const uint64_t from = part.offset / kBlock * kBlock;
  const uint64_t to = (part.offset + part.bytes + kBlock - 1) / kBlock * kBlock;
  const std::lock_guard lock(mutex_);
  ++calls_;
  if (!waits_) note_ended();
  if (by_key_.contains(part.key)) return true;
  uint32_t place = 0;
  if (!find_place(place)) return false;
  if (!ring_->read(direct, from, memory(place), static_cast<uint32_t>(to - from), place)) {
    free_place(place);
    return false;
  }
  ++under_way_;
  places_[place] = {
      .used = true, .under_way = true, .part = part, .call = calls_, .keep = std::move(keep)};
  by_key_.emplace(part.key, place);
  return true;
}

bool DirectReads::note_ended() {
  bool any = false;
  while (const auto ended = ring_->ended()) {
    Place& place = places_[ended->number];
    place.under_way = false;
    place.result = ended->result;
    place.keep.reset();
    --under_way_;
    any = true;
  }
  return any;
}

// Until one has ended, or sooner.
void DirectReads::wait(std::unique_lock<std::mutex>& lock) {
  if (waits_) {
    ended_.wait(lock);
    return;
  }
  if (note_ended()) return;
  waits_ = true;
  lock.unlock();
  ring_->wait();
  lock.lock();
  waits_ = false;
  note_ended();
  ended_.notify_all();
}

bool DirectReads::take(const Part& part, std::span<uint8_t> to) {
  std::unique_lock lock(mutex_);
  const auto found = by_key_.find(part.key);
  if (found == by_key_.end()) return false;
  const uint32_t at = found->second;
  by_key_.erase(found);
  Place& place = places_[at];
  place.awaited = true;
  while (place.under_way) wait(lock);
  const uint64_t before = part.offset % kBlock;
  const bool there = place.part == part && to.size() == part.bytes &&
                     place.result >= static_cast<int64_t>(before + part.bytes);
  if (there) {
    lock.unlock();
    std::memcpy(to.data(), memory(at) + before, to.size());
    taken_.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
  }
  free_place(at);
  return there;
}

}  // namespace stretto::data
