#include "stretto/base/memory.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stretto
