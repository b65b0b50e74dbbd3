#include "stretto/data/slots.h"

#include <algorithm>
#include <bit>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cerrno>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/memory.h"

namespace stretto::data {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// Whole huge pages where a slot is large: it is written for the first time in a fraction of the
// page faults.
int64_t slot_alignment(int64_t bytes) { return bytes >= 2 * kHugePage ? kHugePage : 64; }

// What is pinned shares no page with anything else.
int64_t whole_pages(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

#if defined(__linux__)
// Whoever maps it need not fear that it is cut short, which would be a signal.
std::byte* shared_memory(int64_t bytes, int& file) {
  const int fd = ::memfd_create("stretto batch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const auto size = static_cast<size_t>(bytes);
  void* at = MAP_FAILED;
  if (fd >= 0 && ::ftruncate(fd, bytes) == 0 &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (at == MAP_FAILED) {
    const int code = errno;
    if (fd >= 0) ::close(fd);
    throw_unsupported("loader: no shared memory for a batch of {} bytes: {}", bytes,
                      std::strerror(code));
  }
  file = fd;
  return static_cast<std::byte*>(at);
}
#else
std::byte* shared_memory(int64_t, int&) {
  throw_unsupported("loader: batches in shared memory need Linux");
}
#endif

}  // namespace

int64_t slot_bytes(int64_t wanted) {
  const int64_t align = slot_alignment(wanted);
  return std::max<int64_t>(1, (wanted + align - 1) / align) * align;
}

int64_t mask_slot_bytes(int64_t wanted) {
  constexpr int64_t kLeast = int64_t{1} << 20;
  return slot_bytes(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(wanted, kLeast)))));
}

Slot::Slot(int64_t wanted, int64_t n, BatchMemory memory)
    : bytes(slot_bytes(wanted)),
      labels(static_cast<size_t>(n)),
      samples(static_cast<size_t>(n)),
      real(std::make_unique<bool[]>(static_cast<size_t>(n))),
      count(n) {
  take_memory(bytes);
  if (memory == BatchMemory::kShared) {
    try {
      data = shared_memory(bytes, file);
      mapped = true;
    } catch (...) {
      return_memory(bytes);
      throw;
    }
  } else {
    data = static_cast<std::byte*>(
        std::aligned_alloc(static_cast<size_t>(whole_pages(slot_alignment(bytes))),
                           static_cast<size_t>(whole_pages(bytes))));
  }
  if (data == nullptr) {
    return_memory(bytes);
    throw_unsupported("loader: no memory for a batch of {} bytes", bytes);
  }
#if defined(__linux__)
  if (slot_alignment(bytes) == kHugePage) {
    ::madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a wish
  }
#endif
}

Slot::~Slot() {
  pinned.unpin();
#if defined(__linux__)
  if (mapped) {
    ::munmap(data, static_cast<size_t>(bytes));
    close_file();
    data = nullptr;
  }
#endif
  std::free(data);
  return_memory(bytes);
}

void Slot::close_file() {
#if defined(__linux__)
  if (file >= 0) ::close(std::exchange(file, -1));
#endif
}

void Slot::join_boxes() {
  columns.boxes.reserve(4);  // there is an address also where there are no boxes
  columns.areas.reserve(1);
  columns.labels.reserve(1);
  columns.boxes.clear();
  columns.areas.clear();
  columns.labels.clear();
  columns.starts.assign(1, 0);
  for (const std::vector<PlacedBox>& boxes : placed) {
    for (const PlacedBox& b : boxes) {
      columns.boxes.insert(columns.boxes.end(), {b.x0, b.y0, b.x1, b.y1});
      columns.areas.push_back((b.x1 - b.x0) * (b.y1 - b.y0));
      columns.labels.push_back(b.label);
    }
    columns.starts.push_back(std::ssize(columns.labels));
  }
  columns.masks.clear();
  for (const MaskMemory& masks : masks_of_boxes) columns.masks.push_back(masks.data());
}

SlotPool::SlotPool(size_t keep, BatchMemory memory, std::function<void()> on_free, uint64_t first)
    : forks_(forks()),
      memory_(memory),
      on_free_(std::move(on_free)),
      keep_(keep),
      most_(keep),
      next_number_(first) {
  free_.reserve(keep);
}

void SlotPool::pin(const CudaDriver* driver) {
  pins_ = true;
  driver_ = driver;
}

bool SlotPool::has_room() const {
  const std::lock_guard lock(mutex_);
  // Nothing comes back to a pool that was closed.
  const bool room = keep_ == 0 || !free_.empty() || numbers_.size() < most_;
  awaited_ = awaited_ || !room;
  return room;
}

void SlotPool::grow() {
  const std::lock_guard lock(mutex_);
  most_ = numbers_.size() + 1;
}

std::shared_ptr<Slot> SlotPool::take(int64_t bytes, int64_t count) {
  std::unique_ptr<Slot> slot;
  std::vector<std::unique_ptr<Slot>> unfit;  // freed without the lock
  {
    const std::lock_guard lock(mutex_);
    while (slot == nullptr && !free_.empty()) {
      slot = std::move(free_.back());
      free_.pop_back();
      // Of another phase.
      if (slot->count != count || slot->bytes != slot_bytes(bytes)) {
        forget(*slot);
        unfit.push_back(std::move(slot));
      }
    }
  }
  unfit.clear();
  if (slot == nullptr) {
    slot = std::make_unique<Slot>(bytes, count, memory_);
    const std::lock_guard lock(mutex_);
    slot->number = next_number_++;
    numbers_.push_back(slot->number);
  }
  if (pins_) {
    const int64_t before = slot->pinned.bytes();
    slot->pinned.pin(driver_ != nullptr ? driver_ : loaded_cuda(), slot->data, slot->bytes);
    pinned_bytes_.fetch_add(slot->pinned.bytes() - before, std::memory_order_relaxed);
  }
  return {slot.release(), [pool = shared_from_this()](Slot* s) { pool->give_back(s); }};
}

void SlotPool::give_back(Slot* slot) {
  // The lock may have been held when the process forked. The child's copy of the memory is left.
  if (forks_ != forks()) return;
  std::unique_ptr<Slot> owned(slot);
  bool awaited = false;
  {
    const std::lock_guard lock(mutex_);
    if (free_.size() < keep_) {
      free_.push_back(std::move(owned));
    } else {
      forget(*owned);
    }
    awaited = std::exchange(awaited_, false) && keep_ > 0;
  }
  if (awaited && on_free_) on_free_();
}

void SlotPool::forget(const Slot& slot) {
  pinned_bytes_.fetch_sub(slot.pinned.bytes(), std::memory_order_relaxed);
  std::erase(numbers_, slot.number);  // there are a few
  most_ = std::max(keep_, numbers_.size());
}

std::vector<uint64_t> SlotPool::numbers() const {
  const std::lock_guard lock(mutex_);
  return numbers_;
}

void SlotPool::close() {
  std::vector<std::unique_ptr<Slot>> freed;
  const std::lock_guard lock(mutex_);
  keep_ = 0;
  freed.swap(free_);
}

}  // namespace stretto::data
