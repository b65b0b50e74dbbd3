#include "stretto/comm/link/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stretto::comm {
namespace {

TEST(BufferPool, GivesWhatWasUsedLastAgain) {
  BufferPool pool(1 << 20);
  BufferPool::Buffer a = pool.take(100'000), b = pool.take(100'000);
  EXPECT_NE(a.get(), b.get());
  std::memset(a.get(), 1, 100'000);
  std::memset(b.get(), 2, 100'000);
  std::byte* const first = a.get();
  std::byte* const second = b.get();
  a.reset();
  b.reset();
  EXPECT_EQ(pool.spare_bytes(), 2u * (128 << 10));
  EXPECT_EQ(pool.take(70'000).get(), second);
  b = pool.take(131'072);
  EXPECT_EQ(b.get(), second);
  a = pool.take(65'537);
  EXPECT_EQ(a.get(), first);
  EXPECT_EQ(pool.spare_bytes(), 0u);
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  BufferPool pool(100'000);
  pool.take(65'536).reset();
  EXPECT_EQ(pool.spare_bytes(), 65'536u);
  pool.take(1).reset();
  pool.take(32'768).reset();
  EXPECT_EQ(pool.spare_bytes(), 65'536u) << "small ones are not kept";
  BufferPool::Buffer a = pool.take(65'536), b = pool.take(65'536);
  a.reset();
  b.reset();
  pool.take(1 << 20).reset();
  EXPECT_EQ(pool.spare_bytes(), 65'536u) << "more would be too much";
}

}  // namespace
}  // namespace stretto::comm
