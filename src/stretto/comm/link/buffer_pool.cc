#include "stretto/comm/link/buffer_pool.h"

#include <bit>
#include <new>
#include <utility>

namespace stretto::comm {
namespace {

constexpr size_t kSmallBytes = 32 << 10;

}  // namespace

BufferPool::Buffer BufferPool::take(size_t bytes) {
  if (bytes <= kSmallBytes)
    return Buffer(std::make_unique_for_overwrite<std::byte[]>(bytes).release(), {});
  const auto size_class = static_cast<size_t>(std::bit_width(bytes - 1));
  const size_t size = size_t{1} << size_class;
  auto& spare = spare_[size_class];
  if (spare.empty())
    return Buffer(std::make_unique_for_overwrite<std::byte[]>(size).release(), {this, size_class});
  Buffer buffer(spare.back().release(), {this, size_class});
  spare.pop_back();
  spare_bytes_ -= size;
  return buffer;
}

void BufferPool::give_back(std::byte* data, size_t size_class) noexcept {
  std::unique_ptr<std::byte[]> owned(data);
  const size_t size = size_t{1} << size_class;
  if (spare_bytes_ + size > most_spare_bytes_) return;
  try {
    spare_[size_class].push_back(std::move(owned));
  } catch (const std::bad_alloc&) {
    return;  // the list cannot grow: the memory is freed instead
  }
  spare_bytes_ += size;
}

}  // namespace stretto::comm
