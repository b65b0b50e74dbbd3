#include "stretto/base/pieces.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Pieces, StandOneBehindTheOther) {
  const std::string weights(5000, 'w');
  Pieces pieces;
  pieces.add("short");  // a string that holds its characters itself
  pieces.add_view(bytes_of(weights));
  pieces.align(4096);
  EXPECT_EQ(pieces.size(), 8192u);
  for (int i = 0; i < 1000; ++i) pieces.add(std::string(1, static_cast<char>('a' + i % 26)));
  Pieces moved = std::move(pieces);
  std::string expected = "short" + weights;
  expected.resize(8192);
  for (int i = 0; i < 1000; ++i) expected += static_cast<char>('a' + i % 26);
  EXPECT_EQ(moved.joined(), expected);
  EXPECT_EQ(moved.size(), expected.size());
  EXPECT_EQ(moved.views()[1].data(), weights.data());  // not copied

  Pieces whole;
  whole.add("0123456789");
  whole.add(std::move(moved));
  whole.align(1);
  EXPECT_EQ(whole.joined(), "0123456789" + expected);
  EXPECT_EQ(whole.views()[2].data(), weights.data());
}

TEST(Pieces, NothingIsNoPiece) {
  Pieces pieces;
  pieces.add("");
  pieces.add_view({});
  pieces.align(64);
  EXPECT_EQ(pieces.size(), 0u);
  EXPECT_TRUE(pieces.views().empty());
}

}  // namespace
}  // namespace stretto
