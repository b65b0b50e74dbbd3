// Keeps freed memory for later. The first write to a page takes as long as a copy into it, and
// memory that was used last is still in the cache. Small buffers come from malloc, which does the
// same.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace stretto::comm {

class BufferPool {
 public:
  // Keeps at most `most_spare_bytes` of freed memory.
  explicit BufferPool(size_t most_spare_bytes) : most_spare_bytes_(most_spare_bytes) {}

  struct Return {
    BufferPool* pool = nullptr;  // null: small
    size_t size_class = 0;
    void operator()(std::byte* data) const {
      if (pool == nullptr) {
        delete[] data;
      } else {
        pool->give_back(data, size_class);
      }
    }
  };
  using Buffer = std::unique_ptr<std::byte[], Return>;

  // At least `bytes` bytes, not initialised. The buffer must be freed before the pool.
  Buffer take(size_t bytes);

  size_t spare_bytes() const { return spare_bytes_; }

 private:
  void give_back(std::byte* data, size_t size_class) noexcept;

  // spare_[c] holds buffers of 1 << c bytes; the one used last is at the end.
  std::array<std::vector<std::unique_ptr<std::byte[]>>, 64> spare_;
  const size_t most_spare_bytes_;
  size_t spare_bytes_ = 0;
};

}  // namespace stretto::comm
