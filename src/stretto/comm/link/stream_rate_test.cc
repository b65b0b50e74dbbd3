#include "stretto/comm/link/stream_rate.h"

#include <gtest/gtest.h>

#include <vector>

namespace stretto::comm {
namespace {

constexpr int64_t kChunk = 256 << 10;
constexpr double kFast = 125e6, kSlow = 25e6;  // bytes per second

// A stream that always has something to send, looked at every millisecond.
double run(StreamRate& rate, double bytes_per_s, double from_s, double seconds, int64_t start = 0) {
  double now = from_s;
  for (; now < from_s + seconds; now += 1e-3)
    rate.observe(start + static_cast<int64_t>((now - from_s) * bytes_per_s), kChunk, now);
  return now;
}

TEST(StreamRate, IsWhatIsAcknowledgedPerSecond) {
  StreamRate rate;
  EXPECT_FALSE(rate.bytes_per_s(100));
  const double now = run(rate, kSlow, 100, 0.1);
  ASSERT_TRUE(rate.bytes_per_s(now));
  EXPECT_NEAR(*rate.bytes_per_s(now), kSlow, 0.01 * kSlow);
}

TEST(StreamRate, TimeWithNothingToSendDoesNotCount) {
  StreamRate rate;
  double now = run(rate, kFast, 100, 0.1);
  const auto sent = static_cast<int64_t>(0.1 * kFast);
  rate.observe(sent, 0, now);
  now += 10;
  rate.observe(sent, 0, now);
  EXPECT_NEAR(rate.bytes_per_s(now).value_or(0), kFast, 0.02 * kFast);
  now = run(rate, kFast, now, 0.05, sent);
  EXPECT_NEAR(rate.bytes_per_s(now).value_or(0), kFast, 0.02 * kFast);
}

TEST(StreamRate, AStreamThatStandsStillHasNone) {
  StreamRate rate;
  const double now = run(rate, kFast, 100, 0.1);
  const auto sent = static_cast<int64_t>(0.1 * kFast);
  rate.observe(sent, kChunk, now);
  EXPECT_TRUE(rate.bytes_per_s(now + 0.04));
  EXPECT_FALSE(rate.bytes_per_s(now + 0.06));
  rate.observe(sent + 1, kChunk, now + 0.07);
  EXPECT_TRUE(rate.bytes_per_s(now + 0.08)) << "it moves again";
}

// A chunk takes 10.5 ms on the slow stream and 2.1 ms on the fast one.
TEST(FinishFirst, TheLastChunksAreLeftToTheFastStream) {
  const std::vector<StreamLoad> fast{{kFast, 0}};
  EXPECT_TRUE(finish_first(fast, {kSlow, 0}, kChunk, 1));
  EXPECT_TRUE(finish_first(fast, {kSlow, 0}, kChunk, 4));
  EXPECT_FALSE(finish_first(fast, {kSlow, 0}, kChunk, 5)) << "it takes as long for them";
}

TEST(FinishFirst, WhatIsUnderWayCounts) {
  const std::vector<StreamLoad> fast{{kFast, 4 * kChunk}};
  EXPECT_FALSE(finish_first(fast, {kSlow, 0}, kChunk, 1)) << "the fast one is busy until then";
  EXPECT_TRUE(finish_first(fast, {kSlow, kChunk}, kChunk, 5));
}

TEST(FinishFirst, StreamsOfTheSameRateTakeTurns) {
  const std::vector<StreamLoad> others{{kFast, kChunk}, {kFast, 0}, {kFast, kChunk}};
  EXPECT_FALSE(finish_first(others, {kFast, 0}, kChunk, 1));
}

// A rank that was stopped for long: its streams moved next to nothing, so there is room for more
// chunks than a whole number counts.
TEST(FinishFirst, AStreamThatHardlyMovesIsNotWaitedFor) {
  const std::vector<StreamLoad> others{{kFast, 0}, {kFast, 0}, {kFast, 0}};
  EXPECT_TRUE(finish_first(others, {1e-9, kChunk}, kChunk, 1000));
  EXPECT_TRUE(finish_first(others, {1e-300, kChunk}, kChunk, 1000));
}

TEST(FinishFirst, NobodyElseMeansNo) { EXPECT_FALSE(finish_first({}, {kSlow, 0}, kChunk, 1)); }

}  // namespace
}  // namespace stretto::comm
