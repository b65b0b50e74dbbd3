#include "stretto/base/memory.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(Memory, WhatDoesNotFitIsRefusedAndNotEntered) {
  const int64_t total = total_memory_bytes();
  ASSERT_GT(total, 64 << 20);
  const int64_t part = total / 4 * 3;
  take_memory(part);
  EXPECT_THROW(take_memory(part), Unsupported);
  EXPECT_THROW(take_memory(INT64_MAX), Unsupported);
  // The refusals left nothing behind: the rest still fits, and all of it again later.
  take_memory(total - part);
  return_memory(total);
  take_memory(total);
  return_memory(total);
}

TEST(Memory, HugePagesBeginWhereOneCan) {
  auto* memory = static_cast<std::byte*>(allocate_in_huge_pages(2 * kHugePage));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHugePage, 0);
  memory[0] = memory[2 * kHugePage - 1] = std::byte{1};
  std::free(memory);
  EXPECT_EQ(allocate_in_huge_pages(size_t{1} << 62), nullptr);
}

}  // namespace
}  // namespace stretto
