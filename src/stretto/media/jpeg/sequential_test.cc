// Our own decoder of ordinary files against libjpeg, and the transform against its reference.
#include "stretto/media/jpeg/sequential.h"

#include <gtest/gtest.h>

#include <random>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/inverse.h"
#include "stretto/media/jpeg/jpeg_testing.h"
#include "stretto/media/jpeg/transcode.h"

namespace stretto::media::jpeg {
namespace {

constexpr int kSamplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};

// What decode_sequential() makes of a file whose headers are fine.
std::optional<Planes> decode_own(Bytes file, const Region& region, Buffer& buffer, Isa isa) {
  Decompressor decompressor(file, {});
  decompressor.run([&] { jpeg_read_header(&decompressor.info(), TRUE); });
  return decode_sequential(decompressor, region, buffer, isa);
}

// The samples of `region` are in both and the same.
void expect_same(const Planes& a, const Planes& b, const Region& region) {
  ASSERT_EQ(a.count, b.count);
  ASSERT_EQ(a.colour, b.colour);
  ASSERT_EQ(a.width, b.width);
  ASSERT_EQ(a.height, b.height);
  for (int k = 0; k < a.count; ++k) {
    const Plane &p = a.plane[k], &q = b.plane[k];
    ASSERT_EQ(p.ratio_x, q.ratio_x);
    ASSERT_EQ(p.ratio_y, q.ratio_y);
    ASSERT_EQ(p.full_width, q.full_width);
    ASSERT_EQ(p.full_height, q.full_height);
    const int64_t x0 = region.x0 / p.ratio_x, x1 = ceil_div(region.x1, p.ratio_x);
    const int64_t y0 = region.y0 / p.ratio_y, y1 = ceil_div(region.y1, p.ratio_y);
    for (const Plane* plane : {&p, &q}) {
      ASSERT_LE(plane->x0, x0);
      ASSERT_LE(plane->y0, y0);
      ASSERT_GE(plane->x0 + plane->width, x1);
      ASSERT_GE(plane->y0 + plane->height, y1);
    }
    for (int64_t y = y0; y < y1; ++y) {
      for (int64_t x = x0; x < x1; ++x) {
        ASSERT_EQ(p.data[(y - p.y0) * p.stride + x - p.x0],
                  q.data[(y - q.y0) * q.stride + x - q.x0])
            << "component " << k << " at " << x << ", " << y;
      }
    }
  }
}

Region random_region(std::mt19937& random, int64_t width, int64_t height) {
  Region r;
  r.x0 = random() % width;
  r.y0 = random() % height;
  r.x1 = r.x0 + 1 + random() % (width - r.x0);
  r.y1 = r.y0 + 1 + random() % (height - r.y0);
  return r;
}

TestPicture random_picture(std::mt19937& random) {
  const auto& [h, v] = kSamplings[random() % std::size(kSamplings)];
  constexpr int kQualities[] = {5, 50, 90, 100};
  TestPicture p{.width = static_cast<int>(1 + random() % 90),
                .height = static_cast<int>(1 + random() % 90),
                .colour = random() % 4 == 0 ? "rgb" : "ycc",
                .h = h,
                .v = v,
                .quality = kQualities[random() % 4],
                .restart_interval = random() % 2 == 0 ? 0 : static_cast<int>(1 + random() % 9),
                .seed = static_cast<uint32_t>(random())};
  if (random() % 5 == 0) {
    p.colour = "grey";
    p.h = p.v = 1;
  }
  return p;
}

TEST(JpegSequential, SamplesAreThoseOfLibjpeg) {
  std::mt19937 random(11);  // the seed
  Buffer one, other;
  for (int i = 0; i < 400; ++i) {
    const TestPicture p = random_picture(random);
    std::vector<std::byte> file = make_jpeg(p);
    if (i % 4 == 0) file = transcode(file);  // with Huffman tables of its own
    const Region region =
        i % 3 == 0 ? Region{0, 0, p.width, p.height} : random_region(random, p.width, p.height);
    SCOPED_TRACE(fmt::format("{}: {}x{} {} {}x{} quality {} restarts {}", i, p.width, p.height,
                             p.colour, p.h, p.v, p.quality, p.restart_interval));
    const Planes expected = decode_planes_by_libjpeg(file, region, {}, other);
    for (const Isa isa : usable_isas()) {
      const auto got = decode_own(file, region, one, isa);
      ASSERT_TRUE(got) << isa_name(isa);
      expect_same(*got, expected, region);
    }
    expect_same(decode_planes(file, region, {}, one), expected, region);
  }
}

TEST(JpegSequential, WhatIsOtherwiseIsLeftToLibjpeg) {
  Buffer buffer;
  const Region all{0, 0, 40, 30};
  for (const TestPicture& p :
       {TestPicture{.width = 40, .height = 30, .progressive = true},
        TestPicture{.width = 40, .height = 30, .arithmetic = true},
        TestPicture{.width = 40, .height = 30, .colour = "cmyk"},
        TestPicture{.width = 40, .height = 30, .colour = "grey", .h = 2, .v = 2}}) {
    EXPECT_FALSE(decode_own(make_jpeg(p), all, buffer, usable_isa())) << p.colour;
  }
}

// Whatever happens to the data, both decoders accept the same files and give the same samples:
// what ours cannot take, libjpeg decides.
TEST(JpegSequential, DamagedFilesAreTakenAndRefusedAsByLibjpeg) {
  std::mt19937 random(12);  // the seed
  Buffer one, other;
  int taken = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const TestPicture p = random_picture(random);
    std::vector<std::byte> file = make_jpeg(p);
    const size_t data = read_headers(file).data;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int c = 0; c < changes; ++c) {
      const size_t at = data + random() % (file.size() - data);
      file[at] = static_cast<std::byte>(random() % 4 == 0 ? 0xFF : random() % 256);
    }
    if (random() % 8 == 0) file.resize(data + random() % (file.size() - data));
    const Region region = random_region(random, p.width, p.height);
    SCOPED_TRACE(fmt::format("{}: {}x{} {} {}x{} restarts {}", i, p.width, p.height, p.colour, p.h,
                             p.v, p.restart_interval));
    for (const bool allow : {false, true}) {
      std::optional<Planes> a, b;
      try {
        a = decode_planes(file, region, {.allow_damaged = allow}, one);
      } catch (const FormatError&) {
      }
      try {
        b = decode_planes_by_libjpeg(file, region, {.allow_damaged = allow}, other);
      } catch (const FormatError&) {
      }
      ASSERT_EQ(a.has_value(), b.has_value());
      if (a) expect_same(*a, *b, region);
      ++(a ? taken : refused);
    }
  }
  EXPECT_GT(taken, 300);  // else nothing was compared
  EXPECT_GT(refused, 300);
}

// Single pixels of black and white: coefficients for which 16-bit vectors may overflow.
TEST(JpegSequential, CoefficientsOfAnySizeGiveTheSameSamples) {
  std::mt19937 random(13);  // the seed
  Buffer one, other;
  for (const int factor : {1, 3, 15, 255}) {
    std::vector<std::byte> file =
        make_jpeg({.width = 64, .height = 64, .colour = "grey", .quality = 100});
    for (const Segment& s : read_headers(file).segments) {
      if (s.marker != 0xDB) continue;
      for (size_t i = s.begin + 5; i < s.end; ++i) file[i] = static_cast<std::byte>(factor);
    }
    const Region all{0, 0, 64, 64};
    SCOPED_TRACE(factor);
    expect_same(decode_planes(file, all, {}, one), decode_planes_by_libjpeg(file, all, {}, other),
                all);
  }
}

TEST(JpegInverse, VectorsGiveWhatTheReferenceGives) {
  std::mt19937 random(14);  // the seed
  for (const Isa isa : usable_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const int group = inverse_group(isa);
    for (int round = 0; round < 500; ++round) {
      alignas(64) int16_t coefficients[64 * kLargestGroup] = {};
      int16_t natural[kLargestGroup][64] = {};
      for (int b = 0; b < group; ++b) {
        // Few or many of them, up to the largest sum.
        int64_t left = kLargestSum;
        const int count = static_cast<int>(random() % (round % 2 == 0 ? 4 : 64)) + 1;
        for (int i = 0; i < count; ++i) {
          const int at = static_cast<int>(random() % 64);
          const int64_t most = std::min<int64_t>(left, i == 0 ? kLargestSum : 200);
          const auto value =
              static_cast<int64_t>(random() % static_cast<uint32_t>(2 * most + 1)) - most;
          if (natural[b][at] != 0) continue;
          natural[b][at] = static_cast<int16_t>(value);
          left -= std::abs(value);
        }
        for (int i = 0; i < 64; ++i) {
          coefficients[(i / 8 * group + b) * 8 + i % 8] = natural[b][i];
        }
      }
      uint8_t got[kLargestGroup][8 * 11] = {}, expected[64];
      uint8_t* to[kLargestGroup];
      int64_t stride[kLargestGroup];
      for (int b = 0; b < group; ++b) {
        to[b] = got[b];
        stride[b] = 8 + b;
      }
      inverse_transform(coefficients, to, stride, isa);
      for (int b = 0; b < group; ++b) {
        inverse_reference(natural[b], expected, 8);
        for (int i = 0; i < 64; ++i) {
          ASSERT_EQ(got[b][i / 8 * stride[b] + i % 8], expected[i]) << round << ": " << i;
        }
      }
      for (const int16_t c : coefficients) ASSERT_EQ(c, 0);
    }
  }
}

}  // namespace
}  // namespace stretto::media::jpeg
