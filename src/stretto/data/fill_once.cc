#include "stretto/data/fill_once.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/memory.h"

namespace stretto::data {
namespace {

constexpr size_t kCacheAlign = 64;
// Small entries share chunks, at the end of each of which less than an eighth is left over.
constexpr size_t kChunkBytes = size_t{8} << 20, kLargestShared = kChunkBytes / 8;
// Entries in a row that found no room: one picture that is far larger than the others does not end
// the cache for them.
constexpr int kMostRefused = 16;

// In the table while an entry is filled.
const std::byte kClaimed{};

}  // namespace

FillOnce::FillOnce(int64_t entries, int64_t budget) : entries_(entries), budget_(budget) {
  if (!take(entries * static_cast<int64_t>(sizeof table_[0]))) {
    full_.store(true);
    return;
  }
  table_ = std::make_unique<std::atomic<const std::byte*>[]>(static_cast<size_t>(entries));
  used_.store(taken_.load());
}

FillOnce::~FillOnce() { return_memory(taken_.load()); }

bool FillOnce::take(int64_t bytes) {
  const int64_t taken = taken_.load(std::memory_order_relaxed);
  if (bytes > budget_ - taken) return false;
  try {
    take_memory(bytes);
  } catch (const Unsupported&) {  // a cache does without
    return false;
  }
  taken_.store(taken + bytes, std::memory_order_relaxed);
  return true;
}

const std::byte* FillOnce::find(int64_t entry) const {
  if (table_ == nullptr) return nullptr;
  STRETTO_CHECK(entry >= 0 && entry < entries_, "entry {} of {}", entry, entries_);
  const std::byte* p = table_[static_cast<size_t>(entry)].load(std::memory_order_acquire);
  return p == &kClaimed ? nullptr : p;
}

std::byte* FillOnce::claim(int64_t entry, size_t bytes) {
  if (full() || table_ == nullptr) return nullptr;
  std::atomic<const std::byte*>& at = table_[static_cast<size_t>(entry)];
  const std::byte* nothing = nullptr;
  if (!at.compare_exchange_strong(nothing, &kClaimed)) return nullptr;
  std::byte* const data = allocate(bytes);
  if (data == nullptr) at.store(nullptr, std::memory_order_release);
  return data;
}

std::byte* FillOnce::allocate(size_t bytes) {
  bytes = (bytes + kCacheAlign - 1) / kCacheAlign * kCacheAlign;
  const std::lock_guard lock(mutex_);
  std::byte* data = nullptr;
  if (bytes > kLargestShared) {
    data = take_chunk(bytes);
  } else {
    if (bytes > free_bytes_) {
      const int64_t left = budget_ - taken_.load(std::memory_order_relaxed);
      const size_t whole = static_cast<size_t>(std::max<int64_t>(left, 0)) / kCacheAlign;
      const size_t chunk = std::max(bytes, std::min(kChunkBytes, whole * kCacheAlign));
      if (std::byte* const memory = take_chunk(chunk)) {
        free_ = memory;
        free_bytes_ = chunk;
      }
    }
    if (bytes <= free_bytes_) {
      data = free_;
      free_ += bytes;
      free_bytes_ -= bytes;
    }
  }
  if (data == nullptr) {
    if (++refused_ == kMostRefused) full_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  refused_ = 0;
  used_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return data;
}

std::byte* FillOnce::take_chunk(size_t bytes) {
  if (!take(static_cast<int64_t>(bytes))) return nullptr;
  std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(kCacheAlign, bytes)));
  if (memory == nullptr) {
    taken_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    return_memory(static_cast<int64_t>(bytes));
    return nullptr;
  }
  chunks_.push_back(std::move(memory));
  return chunks_.back().get();
}

void FillOnce::publish(int64_t entry, const std::byte* data) {
  published_.fetch_add(1, std::memory_order_relaxed);
  table_[static_cast<size_t>(entry)].store(data, std::memory_order_release);
}

}  // namespace stretto::data
