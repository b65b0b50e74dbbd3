#include "stretto/comm/negotiate/round_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

TEST(RoundMessages, TheFirstPartAndTheRestAreTheMessage) {
  for (const size_t size : {0, 1, 90, 96, 97, 500}) {
    std::vector<std::byte> message(size);
    for (size_t i = 0; i < size; ++i) message[i] = static_cast<std::byte>(i + 1);
    const auto part = first_part(message, 100);
    EXPECT_EQ(part.size(), 100u);
    EXPECT_EQ(message_bytes(part), size);
    const auto here = beginning(part);
    EXPECT_EQ(here.size() + rest_bytes(size, 100), size);
    EXPECT_TRUE(std::equal(here.begin(), here.end(), message.begin()));
  }
}

TEST(RoundMessages, ALengthThatAnotherRankMadeUpIsRefused) {
  std::vector<std::byte> part(100, std::byte{0xff});
  EXPECT_THROW(message_bytes(part), FormatError);
  EXPECT_THROW(beginning(part), FormatError);
  uint32_t length = kMostRoundBytes;
  std::memcpy(part.data(), &length, sizeof length);
  EXPECT_EQ(message_bytes(part), kMostRoundBytes);
  ++length;
  std::memcpy(part.data(), &length, sizeof length);
  EXPECT_THROW(message_bytes(part), FormatError);
  EXPECT_THROW(message_bytes({}), FormatError);
  EXPECT_THROW(first_part(std::vector<std::byte>(kMostRoundBytes + 1), 100), Unsupported);
}

TEST(RoundMessages, SizesOfTextsThatAnotherRankMadeUpAreRefused) {
  EXPECT_EQ(total_bytes(std::vector<int64_t>{3, 0, 4}), 7);
  EXPECT_EQ(total_bytes(std::vector<int64_t>{kMostTextBytes, 0}), kMostTextBytes);
  EXPECT_THROW(total_bytes(std::vector<int64_t>{3, -1}), FormatError);
  EXPECT_THROW(total_bytes(std::vector<int64_t>{1, kMostTextBytes}), FormatError);
  EXPECT_THROW(total_bytes(std::vector<int64_t>{INT64_MAX, INT64_MAX, 2}), FormatError);
}

TEST(RoundMessages, TextsComeBackByRank) {
  const std::string a = pack_texts({"one", ""}), b = pack_texts({"", "two"});
  const std::vector<int64_t> sizes{static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size())};
  const auto texts = unpack_texts(a + b, sizes, 2);
  EXPECT_EQ(texts, (std::vector<std::vector<std::string>>{{"one", ""}, {"", "two"}}));
}

// The texts of one rank would be taken for those of the next.
TEST(RoundMessages, ARankWithTooFewOrTooManyTextsIsRefused) {
  const std::string one = pack_texts({"one"}), two = pack_texts({"two", "three"});
  const auto unpack = [](const std::string& a, const std::string& b, size_t count) {
    const std::vector<int64_t> sizes{static_cast<int64_t>(a.size()),
                                     static_cast<int64_t>(b.size())};
    return unpack_texts(a + b, sizes, count);
  };
  EXPECT_THROW(unpack(one, two, 2), FormatError);
  EXPECT_THROW(unpack(two, one, 2), FormatError);
  EXPECT_THROW(unpack(two, two, 1), FormatError);
  EXPECT_THROW(unpack(one, "no end", 1), FormatError);
  EXPECT_THROW(unpack("", one, 1), FormatError);
}

}  // namespace
}  // namespace stretto::comm
