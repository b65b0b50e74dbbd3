#include "stretto/data/restarts.h"

#include <gtest/gtest.h>

#include <random>

#include "stretto/data/data_testing.h"
#include "stretto/media/jpeg/jpeg_testing.h"
#include "stretto/media/jpeg/transcode.h"

namespace stretto::data {
namespace {

using media::Bytes;
using media::jpeg::make_jpeg;

TEST(Restarts, TablesComeBack) {
  for (const auto& [width, height] : {std::pair{1, 1}, {64, 48}, {500, 375}, {1000, 9}}) {
    const std::vector<std::byte> file =
        media::jpeg::transcode(make_jpeg({.width = width, .height = height}));
    const media::jpeg::RestartTableOrReason found = media::jpeg::restart_table(file);
    ASSERT_TRUE(found) << found.reason;
    const std::vector<std::byte> bytes = encode_restarts(found.table);
    const media::jpeg::RestartTable table = decode_restarts(bytes, file);
    EXPECT_EQ(table.begin, found.table.begin);
    EXPECT_EQ(table.header, found.table.header);
    EXPECT_EQ(table.width, width);
    EXPECT_EQ(table.height, height);
    EXPECT_LE(bytes.size(), 1 + 2 * found.table.begin.size());
  }
}

TEST(Restarts, NoOtherBytesAreATable) {
  std::mt19937 random(7);  // the seed
  const std::vector<std::byte> file =
      media::jpeg::transcode(make_jpeg({.width = 200, .height = 100}));
  const std::vector<std::byte> right = encode_restarts(media::jpeg::restart_table(file).table);
  for (size_t i = 0; i < right.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> wrong = right;
      wrong[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_THROW(decode_restarts(wrong, file), FormatError) << "byte " << i << " bit " << bit;
    }
    EXPECT_THROW(decode_restarts(Bytes(right).first(i), file), FormatError) << i << " bytes";
  }
  std::vector<std::byte> longer = right;
  longer.resize(right.size() + 2);
  EXPECT_THROW(decode_restarts(longer, file), FormatError);
  const std::vector<std::byte> other =
      media::jpeg::transcode(make_jpeg({.width = 200, .height = 100, .seed = 2}));
  EXPECT_THROW(decode_restarts(right, other), FormatError);
  EXPECT_TRUE(says(error_of<FormatError>([&] { decode_restarts({}, file); }),
                   "expected one of this picture: its bytes are no table"));
}

}  // namespace
}  // namespace stretto::data
