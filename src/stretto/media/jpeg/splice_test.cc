#include "stretto/media/jpeg/splice.h"

#include <gtest/gtest.h>

#include <random>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/jpeg_testing.h"
#include "stretto/media/jpeg/markers.h"
#include "stretto/media/jpeg/transcode.h"

namespace stretto::media::jpeg {
namespace {

constexpr int kSamplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}};

// The samples that a region of the picture needs, of both.
void expect_same(const Planes& a, const Planes& b, const Region& r) {
  ASSERT_EQ(a.count, b.count);
  ASSERT_EQ(a.colour, b.colour);
  ASSERT_EQ(a.width, b.width);
  ASSERT_EQ(a.height, b.height);
  for (int k = 0; k < a.count; ++k) {
    const Plane &p = a.plane[k], &q = b.plane[k];
    ASSERT_EQ(p.full_width, q.full_width);
    ASSERT_EQ(p.full_height, q.full_height);
    ASSERT_EQ(p.ratio_x, q.ratio_x);
    for (int64_t y = r.y0 / p.ratio_y; y < ceil_div(r.y1, p.ratio_y); ++y) {
      for (int64_t x = r.x0 / p.ratio_x; x < ceil_div(r.x1, p.ratio_x); ++x) {
        ASSERT_GE(x, q.x0);
        ASSERT_LT(x, q.x0 + q.width);
        ASSERT_GE(y, q.y0);
        ASSERT_LT(y, q.y0 + q.height);
        ASSERT_EQ(p.data[(y - p.y0) * p.stride + (x - p.x0)],
                  q.data[(y - q.y0) * q.stride + (x - q.x0)])
            << "component " << k << " at " << x << ", " << y;
      }
    }
  }
}

// All places of a region relative to the tiles, and random ones.
void expect_regions(const std::vector<std::byte>& file, std::mt19937& random, int count) {
  const RestartTableOrReason found = restart_table(file);
  ASSERT_TRUE(found) << found.reason;
  const RestartTable& table = found.table;
  Buffer whole_buffer, part_buffer, scratch;
  const Planes whole = decode_planes(file, {0, 0, table.width, table.height}, {}, whole_buffer);
  for (int i = 0; i < count; ++i) {
    Region r;
    r.x0 = random() % table.width;
    r.y0 = random() % table.height;
    r.x1 = r.x0 + 1 + random() % (table.width - r.x0);
    r.y1 = r.y0 + 1 + random() % (table.height - r.y0);
    SCOPED_TRACE(fmt::format("columns {} to {}, rows {} to {}", r.x0, r.x1, r.y0, r.y1));
    expect_same(whole, decode_spliced(file, table, r, {}, part_buffer, scratch), r);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(JpegSplice, PixelsAreThoseOfTheWholeFile) {
  std::mt19937 random(3);  // the seed
  for (const auto& [h, v] : kSamplings) {
    for (int i = 0; i < 40; ++i) {
      // All sizes around whole MCUs.
      const TestPicture p{.width = static_cast<int>(1 + random() % 140),
                          .height = static_cast<int>(1 + random() % 100),
                          .colour = i % 5 == 4 ? "rgb" : "ycc",
                          .h = h,
                          .v = v,
                          .seed = static_cast<uint32_t>(random())};
      SCOPED_TRACE(fmt::format("{}x{} {} {}x{}", p.width, p.height, p.colour, h, v));
      expect_regions(transcode(make_jpeg(p)), random, 8);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegSplice, EveryIntervalThatFitsGivesTheSamePixels) {
  std::mt19937 random(4);
  for (const char* colour : {"ycc", "grey"}) {
    const int columns = colour[0] == 'g' ? 12 : 6;  // MCUs of 96 pixels
    for (int interval = 1; interval <= 3 * columns; ++interval) {
      const auto file = make_jpeg({.width = 93,
                                   .height = 77,
                                   .colour = colour,
                                   .h = 2,
                                   .v = 2,
                                   .restart_interval = interval});
      const bool fits = columns % interval == 0 || interval % columns == 0;
      ASSERT_EQ(static_cast<bool>(restart_table(file)), fits) << interval;
      if (fits) expect_regions(file, random, 12);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegSplice, AllAlignmentsToBlocks) {
  const auto file = transcode(make_jpeg({.width = 131, .height = 67, .h = 2, .v = 2}));
  const RestartTable table = restart_table(file).table;
  Buffer a, b, scratch;
  const Planes whole = decode_planes(file, {0, 0, 131, 67}, {}, a);
  for (int64_t x = 0; x < 131; x += 5) {
    for (int64_t y = 0; y < 67; y += 3) {
      const Region r{x, y, std::min<int64_t>(x + 17, 131), std::min<int64_t>(y + 9, 67)};
      expect_same(whole, decode_spliced(file, table, r, {}, b, scratch), r);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegSplice, OnlyTheSegmentsOfTheRegionAreRead) {
  auto file = transcode(make_jpeg({.width = 256, .height = 160, .h = 2, .v = 2}));
  const RestartTable table = restart_table(file).table;
  Buffer a, b, scratch;
  const Region r{70, 40, 120, 60};  // of the second tile of the rows of MCUs 2 and 3
  ASSERT_EQ(table.tile_width, 64);
  const Planes before = decode_spliced(file, table, r, {}, a, scratch);
  for (size_t i = 0; i + 1 < table.begin.size(); ++i) {
    const int64_t x = static_cast<int64_t>(i) % table.tiles_x;
    const int64_t y = static_cast<int64_t>(i) / table.tiles_x;
    if (x == 1 && (y == 2 || y == 3)) continue;
    for (size_t k = table.begin[i]; k < table.begin[i + 1]; ++k) file[k] = std::byte{0x55};
  }
  expect_same(before, decode_spliced(file, table, r, {}, b, scratch), r);
}

TEST(JpegSplice, SaysWhyAFileHasNoTable) {
  EXPECT_STREQ(restart_table(make_jpeg({.width = 40, .height = 40})).reason,
               "it has no restart markers");
  EXPECT_STREQ(restart_table(make_jpeg({.width = 40, .height = 40, .progressive = true})).reason,
               "it is not sequential and Huffman-coded");
  auto file = make_jpeg({.width = 64, .height = 64, .restart_interval = 2});
  const RestartTable table = restart_table(file).table;
  ASSERT_EQ(table.begin.size(), 33u);
  file[table.begin[5] - 1] = std::byte{0xD0};
  EXPECT_STREQ(restart_table(file).reason, "its restart markers are not in order");
  file.resize(table.begin[9]);
  file[table.begin[5] - 1] = std::byte{0xD4};
  EXPECT_STREQ(restart_table(file).reason, "its data ends early");
}

TEST(JpegSplice, ATableOfAnotherFileIsRefused) {
  const auto file = make_jpeg({.width = 64, .height = 64, .restart_interval = 2});
  const RestartTable table = restart_table(file).table;
  const Bytes part(file.data(), table.begin[20]);
  Buffer buffer, scratch;
  Region covers;
  EXPECT_THROW(splice(part, table, {0, 0, 64, 64}, scratch, covers), InvalidArgument);
  EXPECT_NO_THROW(splice(part, table, {0, 0, 64, 32}, scratch, covers));
  EXPECT_THROW(splice(file, table, {0, 0, 65, 64}, scratch, covers), InvalidArgument);
  for (const auto change :
       {+[](RestartTable& t) { t.begin.pop_back(); }, +[](RestartTable& t) { t.tile_width = 0; },
        +[](RestartTable& t) { t.tiles_x = 1 << 20; },
        +[](RestartTable& t) { t.size_at = t.header.size() - 3; },
        +[](RestartTable& t) { std::swap(t.begin[3], t.begin[4]); }}) {
    RestartTable wrong = table;
    change(wrong);
    EXPECT_THROW(splice(file, wrong, {0, 0, 64, 64}, scratch, covers), InvalidArgument);
  }
}

TEST(JpegTranscode, KeepsEveryPixelAndMarker) {
  std::mt19937 random(5);
  for (int i = 0; i < 24; ++i) {
    const auto& [h, v] = kSamplings[i % 5];
    const char* colours[] = {"ycc", "rgb", "grey", "cmyk"};
    const TestPicture p{.width = static_cast<int>(1 + random() % 150),
                        .height = static_cast<int>(1 + random() % 80),
                        .colour = colours[i % 4],
                        .h = h,
                        .v = v,
                        .progressive = i % 3 == 0,
                        .arithmetic = i % 3 == 1,
                        .exif = true,
                        .seed = static_cast<uint32_t>(random())};
    SCOPED_TRACE(fmt::format("{}x{} {} {}x{}", p.width, p.height, p.colour, h, v));
    const auto file = make_jpeg(p);
    const auto written = transcode(file);
    EXPECT_EQ(decode_rgb(written).rgb, decode_rgb(file).rgb);
    const PictureInfo info = read_info(written);
    EXPECT_EQ(info.orientation, 6);
    EXPECT_FALSE(info.progressive);
    EXPECT_FALSE(info.arithmetic);
    EXPECT_TRUE(restart_table(written)) << restart_table(written).reason;
  }
}

TEST(JpegTranscode, ChoosesIntervalsOfAboutSixtyFourPixels) {
  EXPECT_EQ(restart_interval_for(32, 16), 4);   // 500 pixels, 4:2:0
  EXPECT_EQ(restart_interval_for(63, 8), 7);    // 500 pixels, 4:4:4
  EXPECT_EQ(restart_interval_for(31, 16), 31);  // nothing divides it: a row
  EXPECT_EQ(restart_interval_for(1, 8), 1);
}

TEST(JpegTranscode, DamagedFilesAreRefused) {
  auto file = make_jpeg({.width = 100, .height = 100});
  file.resize(file.size() / 2);
  EXPECT_THROW(transcode(file), FormatError);
  EXPECT_THROW(transcode(make_jpeg({.width = 100, .height = 100}), {.max_pixels = 9999}),
               Unsupported);
}

TEST(JpegSplice, KnownPlacesGiveTheTableOrAReason) {
  const std::vector<std::byte> file =
      transcode(make_jpeg({.width = 300, .height = 200, .h = 2, .v = 2}));
  const RestartTable table = restart_table(file).table;
  const RestartTableOrReason again = restart_table(file, table.begin);
  ASSERT_TRUE(again) << again.reason;
  EXPECT_EQ(again.table.begin, table.begin);
  EXPECT_EQ(again.table.header, table.header);
  EXPECT_EQ(again.table.size_at, table.size_at);
  EXPECT_EQ(again.table.tile_width, table.tile_width);
  EXPECT_EQ(again.table.tiles_y, table.tiles_y);
  EXPECT_FALSE(restart_table(file, {}));
  for (size_t i = 0; i < table.begin.size(); ++i) {
    for (const int64_t by : {-1, 1, -2, 2, 1 << 20, -(1 << 20)}) {
      std::vector<uint32_t> moved = table.begin;
      moved[i] = static_cast<uint32_t>(moved[i] + by);
      EXPECT_FALSE(restart_table(file, moved)) << i << " moved by " << by;
    }
    std::vector<uint32_t> fewer = table.begin, twice = table.begin;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_FALSE(restart_table(file, fewer)) << "without " << i;
    if (i == 0) continue;
    twice[i] = twice[i - 1];
    EXPECT_FALSE(restart_table(file, twice)) << i << " twice";
  }
}

}  // namespace
}  // namespace stretto::media::jpeg
