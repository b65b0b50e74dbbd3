#include "stretto/media/jpeg/decode.h"

#include <gtest/gtest.h>

#include <random>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/jpeg_testing.h"

namespace stretto::media::jpeg {
namespace {

// Sampling factors of 4:4:4, 4:2:2, 4:4:0, 4:2:0, 4:1:1 and 4:1:0.
constexpr int kSamplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};

uint8_t at(const Plane& plane, int64_t x, int64_t y) {
  return plane.data[(y / plane.ratio_y - plane.y0) * plane.stride +
                    (x / plane.ratio_x - plane.x0) * plane.step];
}

Region random_region(std::mt19937& random, int64_t width, int64_t height) {
  Region r;
  r.x0 = random() % width;
  r.y0 = random() % height;
  r.x1 = r.x0 + 1 + random() % (width - r.x0);
  r.y1 = r.y0 + 1 + random() % (height - r.y0);
  return r;
}

void expect_region(const std::vector<std::byte>& file, const TestPicture& p, const Region& r) {
  int components = 0;
  const std::vector<uint8_t> pixels = decode_repeated(file, components);
  Buffer buffer;
  const Planes planes = decode_planes(file, r, {}, buffer);
  ASSERT_EQ(planes.count, components);
  ASSERT_EQ(planes.width, p.width);
  ASSERT_EQ(planes.height, p.height);
  for (int64_t y = r.y0; y < r.y1; ++y) {
    for (int64_t x = r.x0; x < r.x1; ++x) {
      for (int k = 0; k < components; ++k) {
        ASSERT_EQ(at(planes.plane[k], x, y),
                  pixels[static_cast<size_t>((y * p.width + x) * components + k)])
            << "component " << k << " at " << x << ", " << y;
      }
    }
  }
}

TEST(JpegDecode, PlanesOfRegionsAreThoseOfTheWholePicture) {
  std::mt19937 random(7);  // the seed
  for (const auto& [h, v] : kSamplings) {
    for (int i = 0; i < 12; ++i) {
      TestPicture p{.width = static_cast<int>(1 + random() % 90),
                    .height = static_cast<int>(1 + random() % 90),
                    .colour = i % 4 == 3 ? "rgb" : "ycc",
                    .h = h,
                    .v = v,
                    .progressive = i % 3 == 1,
                    .arithmetic = i % 6 == 2,
                    .seed = static_cast<uint32_t>(random())};
      SCOPED_TRACE(fmt::format("{}x{} {} {}x{} progressive {} arithmetic {}", p.width, p.height,
                               p.colour, h, v, p.progressive, p.arithmetic));
      const auto file = make_jpeg(p);
      expect_region(file, p, {0, 0, p.width, p.height});
      expect_region(file, p, random_region(random, p.width, p.height));
    }
  }
}

TEST(JpegDecode, GreyIsOnePlaneWhateverItsSamplingFactors) {
  for (const auto& [h, v] : kSamplings) {
    const TestPicture p{.width = 61, .height = 43, .colour = "grey", .h = h, .v = v};
    expect_region(make_jpeg(p), p, {0, 0, 61, 43});
    expect_region(make_jpeg(p), p, {13, 30, 61, 40});
  }
}

TEST(JpegDecode, CmykBecomesRgbByPillowsRule) {
  for (const char* colour : {"cmyk", "ycck"}) {
    const auto file = make_jpeg({.width = 37, .height = 29, .colour = colour, .h = 2, .v = 2});
    const RgbPicture all = decode_rgb(file);
    Buffer buffer;
    const Region region{5, 9, 30, 21};
    const Planes planes = decode_planes(file, region, {}, buffer);
    ASSERT_EQ(planes.colour, Colour::kRgb);
    for (int64_t y = region.y0; y < region.y1; ++y) {
      for (int64_t x = region.x0; x < region.x1; ++x) {
        for (int k = 0; k < 3; ++k) {
          ASSERT_EQ(at(planes.plane[k], x, y), all.rgb[static_cast<size_t>((y * 37 + x) * 3 + k)]);
        }
      }
    }
  }
}

TEST(JpegDecode, InfoSaysWhatTheFileSays) {
  const PictureInfo info = read_info(make_jpeg({.width = 45,
                                                .height = 33,
                                                .h = 2,
                                                .v = 1,
                                                .restart_interval = 3,
                                                .progressive = true,
                                                .exif = true}));
  EXPECT_EQ(info.width, 45);
  EXPECT_EQ(info.height, 33);
  EXPECT_EQ(info.components, 3);
  EXPECT_EQ(info.h[0], 2);
  EXPECT_EQ(info.v[0], 1);
  EXPECT_EQ(info.h[1], 1);
  EXPECT_TRUE(info.progressive);
  EXPECT_FALSE(info.arithmetic);
  EXPECT_EQ(info.restart_interval, 3);
  EXPECT_EQ(info.orientation, 6);
  EXPECT_TRUE(read_info(make_jpeg({.width = 9, .height = 9, .arithmetic = true})).arithmetic);
  EXPECT_EQ(read_info(make_jpeg({.width = 9, .height = 9, .colour = "grey"})).components, 1);
}

TEST(JpegDecode, DamagedDataIsAnErrorUnlessAllowed) {
  auto file = make_jpeg({.width = 120, .height = 90, .h = 2, .v = 2});
  file.resize(file.size() * 2 / 3);
  Buffer buffer;
  const Region all{0, 0, 120, 90};
  EXPECT_THROW(decode_planes(file, all, {}, buffer), FormatError);
  EXPECT_THROW(decode_rgb(file), FormatError);
  EXPECT_NO_THROW(decode_planes(file, all, {.allow_damaged = true}, buffer));
  EXPECT_NO_THROW(decode_planes(file, {0, 0, 120, 16}, {}, buffer)) << "the part before is there";
}

TEST(JpegDecode, EveryPrefixOfAFileIsDecodedOrRefused) {
  const auto file = make_jpeg({.width = 20, .height = 12, .h = 2, .v = 2, .exif = true});
  Buffer buffer;
  for (size_t n = 0; n + 3 < file.size(); ++n) {
    const Bytes part(file.data(), n);
    EXPECT_THROW(decode_planes(part, {0, 0, 20, 12}, {}, buffer), FormatError) << n;
  }
}

TEST(JpegDecode, LargePicturesAreRefusedBeforeMemoryIsTaken) {
  auto file = make_jpeg({.width = 16, .height = 16});
  const size_t at = read_headers(file).size_at;
  file[at] = file[at + 2] = std::byte{0xFE};  // 65024x65024, which JPEG allows
  Buffer buffer;
  EXPECT_THROW(decode_planes(file, {0, 0, 1, 1}, {}, buffer), Unsupported);
  EXPECT_THROW(decode_rgb(file), Unsupported);
  EXPECT_THROW(decode_rgb(make_jpeg({.width = 16, .height = 16}), {.max_pixels = 255}),
               Unsupported);
}

TEST(JpegDecode, ThousandsOfScansAreRefused) {
  const auto file = make_jpeg({.width = 16, .height = 16, .colour = "grey", .progressive = true});
  // The first scan, of the lowest frequency, again and again.
  const Headers headers = read_headers(file);
  size_t end = headers.data;
  while (file[end] != std::byte{0xFF} || file[end + 1] == std::byte{0}) ++end;
  const auto scan = headers.segments.back().begin;
  std::vector<std::byte> many(file.begin(), file.begin() + static_cast<ptrdiff_t>(end));
  for (int i = 0; i < 1000; ++i) {
    many.insert(many.end(), file.begin() + static_cast<ptrdiff_t>(scan),
                file.begin() + static_cast<ptrdiff_t>(end));
  }
  many.insert(many.end(), file.begin() + static_cast<ptrdiff_t>(end), file.end());
  try {
    decode_rgb(many, {.allow_damaged = true});
    FAIL() << "it was decoded";
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("scans"), std::string::npos) << error.what();
  }
}

TEST(JpegDecode, AFileWithoutTablesDoesNotGetThoseOfTheOneBefore) {
  const auto file = make_jpeg({.width = 16, .height = 16});
  decode_rgb(file);
  std::vector<std::byte> without;
  const Headers headers = read_headers(file);
  for (const Segment& s : headers.segments) {
    if (s.marker == 0xDB) continue;  // quantisation
    without.insert(without.end(), file.begin() + static_cast<ptrdiff_t>(s.begin),
                   file.begin() + static_cast<ptrdiff_t>(s.end));
  }
  without.insert(without.end(), file.begin() + static_cast<ptrdiff_t>(headers.data), file.end());
  EXPECT_THROW(decode_rgb(without), FormatError);
}

// Planes beyond the third were written over the stack.
TEST(JpegDecode, ManyComponentsAreRefused) {
  const auto file = make_jpeg({.width = 16, .height = 16, .colour = "grey"});
  const Headers headers = read_headers(file);
  for (const int count : {2, 5, 10}) {
    std::vector<std::byte> many;
    for (const Segment& s : headers.segments) {
      many.insert(many.end(), file.begin() + static_cast<ptrdiff_t>(s.begin),
                  file.begin() + static_cast<ptrdiff_t>(s.end));
      if (s.marker != 0xC0) continue;
      const size_t length = s.end - s.begin - 2, frame = many.size() - (s.end - s.begin);
      many[frame + 3] = static_cast<std::byte>(length + 3 * static_cast<size_t>(count - 1));
      many[frame + 9] = static_cast<std::byte>(count);
      for (int i = 1; i < count; ++i) {
        many.insert(many.end(), {static_cast<std::byte>(i + 1), std::byte{0x11}, std::byte{0}});
      }
    }
    many.insert(many.end(), file.begin() + static_cast<ptrdiff_t>(headers.data), file.end());
    Buffer buffer;
    const DecodeOptions options{.allow_damaged = true};
    EXPECT_THROW(decode_planes(many, {0, 0, 16, 16}, options, buffer), Unsupported) << count;
    EXPECT_THROW(decode_rgb(many, options), Unsupported) << count;
  }
}

TEST(JpegDecode, FractionalSamplingIsRefused) {
  auto file = make_jpeg({.width = 40, .height = 40, .h = 2, .v = 2});
  const size_t components = read_headers(file).size_at + 5;
  file[components + 1] = std::byte{0x31};      // 3x1
  file[components + 3 + 1] = std::byte{0x21};  // 2x1
  Buffer buffer;
  EXPECT_THROW(decode_planes(file, {0, 0, 40, 40}, {.allow_damaged = true}, buffer), Unsupported);
}

}  // namespace
}  // namespace stretto::media::jpeg
