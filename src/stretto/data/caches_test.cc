#include "stretto/data/caches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/base/memory.h"
#include "stretto/data/slots.h"
#include "stretto/media/decode.h"
#include "stretto/media/jpeg/jpeg_testing.h"

namespace stretto::data {
namespace {

TEST(FillOnce, StaysWithinItsBudget) {
  for (const int64_t budget : {0, 100, 10'000, 100'000, 20'000'000}) {
    FillOnce cache(100, budget);
    int64_t stored = 0;
    for (int64_t i = 0; i < 100; ++i) {
      std::byte* const p = cache.claim(i, 1000);
      if (p == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
      std::memset(p, static_cast<int>(i), 1000);
      EXPECT_EQ(cache.find(i), nullptr);  // not before it is published
      cache.publish(i, p);
      ++stored;
    }
    EXPECT_LE(cache.bytes(), budget);
    EXPECT_EQ(cache.published(), stored);
    EXPECT_EQ(cache.full(), 100 - stored >= 16);  // refused in a row
    // A table of 800 bytes, and 1024 for each entry.
    EXPECT_EQ(stored, budget < 800 ? 0 : std::min<int64_t>(100, (budget - 800) / 1024));
    int64_t found = 0;
    for (int64_t i = 0; i < 100; ++i) {
      const std::byte* const p = cache.find(i);
      if (p == nullptr) continue;
      ++found;
      for (int k = 0; k < 1000; ++k) EXPECT_EQ(p[k], static_cast<std::byte>(i));
    }
    EXPECT_EQ(found, stored);
  }
}

// As camera pictures and their planes are: none leaves half of a chunk behind.
TEST(FillOnce, LargeEntriesUseTheWholeBudget) {
  constexpr int64_t kBudget = 40 << 20, kEntry = 4'500'032;
  FillOnce cache(100, kBudget);
  EXPECT_NE(cache.claim(99, 1000), nullptr);
  int64_t stored = 0;
  for (int64_t i = 0; i < 30; ++i) stored += cache.claim(i, kEntry) != nullptr;
  EXPECT_EQ(stored, (kBudget - (8 << 20)) / kEntry);
  EXPECT_EQ(cache.used(), 100 * 8 + 1024 + stored * kEntry);
  EXPECT_LE(cache.bytes(), kBudget);
}

TEST(FillOnce, OneLargeEntryDoesNotEndIt) {
  FillOnce cache(100, 20 << 20);
  EXPECT_EQ(cache.claim(0, 21 << 20), nullptr);
  EXPECT_FALSE(cache.full());
  EXPECT_NE(cache.claim(1, 100'000), nullptr);
  for (int64_t i = 2; i < 40; ++i) EXPECT_EQ(cache.claim(i, 21 << 20), nullptr);
  EXPECT_TRUE(cache.full());
}

TEST(FillOnce, StandsInTheLedger) {
  // What is left of the memory, by asking for more and more.
  const auto left = [] {
    int64_t sum = 0;
    for (int64_t step = total_memory_bytes(); step > 0;) {
      try {
        take_memory(step);
        sum += step;
      } catch (const Unsupported&) {
        step /= 2;
      }
    }
    return_memory(sum);
    return sum;
  };
  const int64_t before = left();
  {
    FillOnce cache(10, 1 << 20);
    cache.claim(0, 500);
    EXPECT_EQ(left(), before - cache.bytes());
    EXPECT_GT(cache.bytes(), 500);
    // No memory left: the cache does without.
    take_memory(left());
    FillOnce other(10, 1 << 20);
    EXPECT_EQ(other.claim(0, 500), nullptr);
    EXPECT_EQ(other.find(0), nullptr);
    EXPECT_TRUE(other.full());
    return_memory(before - cache.bytes());
  }
  EXPECT_EQ(left(), before);
}

TEST(FillOnce, ThreadsShareIt) {
  constexpr int64_t kEntries = 2000;
  FillOnce cache(kEntries, 300'000);
  std::atomic<int64_t> hits{0};
  const auto work = [&](int64_t step) {
    for (int round = 0; round < 3; ++round) {
      for (int64_t k = 0; k < kEntries; ++k) {
        const int64_t i = k * step % kEntries;
        if (const std::byte* const p = cache.find(i)) {
          int64_t value = 0;
          std::memcpy(&value, p + 100, sizeof value);
          EXPECT_EQ(value, i);
          ++hits;
        } else if (std::byte* const q = cache.claim(i, 200)) {
          std::memcpy(q + 100, &i, sizeof i);
          cache.publish(i, q);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (const int64_t step : {1, 3, 7, 1999}) threads.emplace_back(work, step);
  for (std::thread& t : threads) t.join();
  EXPECT_GT(hits.load(), 0);
  EXPECT_LE(cache.bytes(), 300'000);
  EXPECT_GE(cache.published(), 1000);
}

TEST(DecodedCache, KeepsPlanesWithoutPadding) {
  for (const char* colour : {"grey", "ycc", "rgb", "cmyk"}) {
    const auto file = media::jpeg::make_jpeg({.width = 45, .height = 37, .colour = colour});
    media::Buffer buffer;
    const media::Planes planes = media::decode_planes(file, {0, 0, 45, 37}, {}, buffer);
    DecodedCache cache(3, 1 << 20);
    EXPECT_EQ(cache.find(1), nullptr);
    cache.put(1, {.planes = planes, .orientation = 6});
    const DecodedPicture* const found = cache.find(1);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->orientation, 6);
    EXPECT_EQ(found->planes.count, planes.count);
    EXPECT_EQ(found->planes.colour, planes.colour);
    for (int k = 0; k < planes.count; ++k) {
      const media::Plane &a = planes.plane[k], &b = found->planes.plane[k];
      EXPECT_EQ(b.stride, a.width * a.step);
      EXPECT_EQ(b.height, a.height);
      for (int64_t y = 0; y < a.height; ++y) {
        for (int64_t x = 0; x < a.width; ++x) {
          ASSERT_EQ(a.data[y * a.stride + x * a.step], b.data[y * b.stride + x * b.step])
              << colour << " plane " << k << " at " << x << ", " << y;
        }
      }
    }
  }
}

TEST(SlotPool, GivesTheSameMemoryAgain) {
  const auto pool = std::make_shared<SlotPool>(2);
  std::shared_ptr<Slot> a = pool->take(1000, 4);
  const std::byte* const data = a->data;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  a.reset();
  a = pool->take(1000, 4);
  EXPECT_EQ(a->data, data);
  EXPECT_NE(pool->take(1000, 4)->data, data);
  // Of another size: what does not fit is freed.
  a.reset();
  a = pool->take(100'000, 8);
  EXPECT_GE(a->bytes, 100'000);
  EXPECT_EQ(a->labels.size(), 8u);
  pool->close();
  std::memset(a->data, 1, static_cast<size_t>(a->bytes));
}

TEST(SlotPool, ABatchThatDoesNotFitIsAnError) {
  const auto pool = std::make_shared<SlotPool>(2);
  EXPECT_THROW(pool->take(total_memory_bytes() + 1, 1), Unsupported);
}

// Both in one budget; empty ones are known to be empty.
TEST(EncodedCache, DetailsLieBesideTheirPictures) {
  EncodedCache cache(4, 1 << 20, true);
  const std::vector<std::byte> file(100, std::byte{1}), map(50, std::byte{2});
  media::Bytes details;
  EXPECT_FALSE(cache.find_details(3, details));
  cache.put_details(3, map);
  cache.put_details(0, {});
  cache.put(3, {.file = file});
  EXPECT_TRUE(cache.find_details(3, details));
  EXPECT_TRUE(std::equal(details.begin(), details.end(), map.begin(), map.end()));
  EXPECT_TRUE(cache.find_details(0, details));
  EXPECT_TRUE(details.empty());
  Encoded encoded;
  EXPECT_TRUE(cache.find(3, encoded));
  EXPECT_TRUE(std::equal(encoded.file.begin(), encoded.file.end(), file.begin(), file.end()));
  EXPECT_FALSE(cache.find(0, encoded));
  EXPECT_TRUE(cache.has(3) && cache.has_details(0) && !cache.has(0) && !cache.has_details(1));
  EXPECT_EQ(cache.published(), 1);
}

}  // namespace
}  // namespace stretto::data
