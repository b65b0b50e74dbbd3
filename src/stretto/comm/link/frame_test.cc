#include "stretto/comm/link/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace stretto::comm {
namespace {

Frame sample(FrameType type) {
  Frame frame{.type = type,
              .flags = kAckSoon,
              .epoch = 7,
              .received = 41,
              .consumed = 1ull << 41,
              .origin = 3};
  if (type == FrameType::kData) {
    frame.length = 1000;
    frame.key = {.group = 5, .sequence = 1ull << 40, .unit = 2, .tag = 9};
    frame.attempt = 3;
    frame.chunk = 99;
    frame.offset = 24;
    frame.total = 1024;
    frame.fingerprint = 0xabcdef;
    frame.ahead = 17;
  }
  return frame;
}

TEST(Frame, ComesBackAsItWas) {
  for (int type = 0; type < kFrameTypes; ++type) {
    const Frame in = sample(static_cast<FrameType>(type));
    const auto out = parse_frame(encode_frame(in));
    ASSERT_TRUE(out) << type;
    EXPECT_EQ(out->type, in.type);
    EXPECT_EQ(out->flags, in.flags);
    EXPECT_EQ(out->attempt, in.attempt);
    EXPECT_EQ(out->epoch, in.epoch);
    EXPECT_EQ(out->length, in.length);
    EXPECT_EQ(out->key, in.key);
    EXPECT_EQ(out->chunk, in.chunk);
    EXPECT_EQ(out->received, in.received);
    EXPECT_EQ(out->consumed, in.consumed);
    EXPECT_EQ(out->offset, in.offset);
    EXPECT_EQ(out->total, in.total);
    EXPECT_EQ(out->fingerprint, in.fingerprint);
    EXPECT_EQ(out->origin, in.origin);
    EXPECT_EQ(out->ahead, in.ahead);
  }
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  const FrameBytes good = encode_frame(sample(FrameType::kData));
  for (size_t bit = 0; bit < 8 * kFrameBytes; ++bit) {
    FrameBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(parse_frame(bad)) << "bit " << bit;
  }
}

TEST(Frame, ImpossibleLengthsAreRefused) {
  Frame frame = sample(FrameType::kData);
  frame.length = 1001;  // beyond the end of its message
  EXPECT_FALSE(parse_frame(encode_frame(frame)));
  frame = sample(FrameType::kData);
  frame.total = ~0ull;
  frame.offset = ~0ull - 10;
  EXPECT_FALSE(parse_frame(encode_frame(frame)));
  frame = sample(FrameType::kData);
  frame.length = kMaxPayload + 1;
  frame.total = 1ull << 40;
  EXPECT_FALSE(parse_frame(encode_frame(frame)));
  frame = sample(FrameType::kData);
  frame.flags = kRts;  // and yet it carries something
  EXPECT_FALSE(parse_frame(encode_frame(frame)));
  frame = sample(FrameType::kAbort);
  frame.length = kMaxText + 1;
  EXPECT_FALSE(parse_frame(encode_frame(frame)));
  frame = sample(FrameType::kAck);
  frame.length = 1;
  EXPECT_FALSE(parse_frame(encode_frame(frame)));
}

TEST(Frame, RandomBytesAreNoFrames) {
  std::mt19937_64 random(1);
  FrameBytes bytes;
  for (int round = 0; round < 20000; ++round) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    EXPECT_FALSE(parse_frame(bytes));
  }
}

}  // namespace
}  // namespace stretto::comm
