// Memory that is used again: writing to pages for the first time takes as long as copying into them
// does, and what was used last is still in the cache. Small pieces are malloc's affair, which keeps
// them itself.
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
  // At most so much is kept for later.
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

  // At least so many bytes, with anything in them. To be gone before the pool is.
  Buffer take(size_t bytes);

  size_t spare_bytes() const { return spare_bytes_; }

 private:
  void give_back(std::byte* data, size_t size_class);

  // Of 1 << class bytes; the one used last is at the end.
  std::array<std::vector<std::unique_ptr<std::byte[]>>, 64> spare_;
  const size_t most_spare_bytes_;
  size_t spare_bytes_ = 0;
};

}  // namespace stretto::comm
