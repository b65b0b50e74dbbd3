// What Pillow 13 makes of the pictures in tests/fuzz/media: tests/media/make_golden.py wrote both.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/media/decode.h"
#include "stretto/media/fuse.h"

namespace stretto::media {
namespace {

const std::string kFolder = STRETTO_CORPUS "/media/";

Bytes bytes_of(const std::string& file) { return std::as_bytes(std::span(file)); }

uint64_t fnv1a(const std::vector<uint8_t>& data) {
  uint64_t value = 0xCBF29CE484222325;
  for (const uint8_t byte : data) value = (value ^ byte) * 0x100000001B3;
  return value;
}

struct Difference {
  double mean = 0;
  int largest = 0;
};

Difference difference(const std::vector<uint8_t>& got, const std::string& hex) {
  Difference d;
  EXPECT_EQ(hex.size(), 2 * got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const int want = std::stoi(hex.substr(2 * i, 2), nullptr, 16);
    const int off = std::abs(want - got[i]);
    d.mean += off / static_cast<double>(got.size());
    d.largest = std::max(d.largest, off);
  }
  return d;
}

struct Line {
  std::string filter, edge, hex;
  Box box;
  int64_t width = 0, height = 0;
};

View view_of(const Line& line, int orientation) {
  return {.box = line.box,
          .width = line.width,
          .height = line.height,
          .filter = line.filter == "cubic" ? Filter::kCubic
                    : line.filter == "box" ? Filter::kBox
                                           : Filter::kTriangle,
          .edge = line.edge == "crop" ? Edge::kBox : Edge::kPicture,
          .orientation = orientation};
}

// JPEG files of colour are converted to RGB after resizing here and before it there, with a
// rounding in between: a few steps at edges of strong colours, 0.5 on average at the most.
// Elsewhere only the last rounding and those of Pillow's first direction differ.
void expect_close(const Difference& d, const std::string& name, bool colour_jpeg) {
  EXPECT_LE(d.mean, 0.5) << name;
  EXPECT_LE(d.largest, colour_jpeg ? 6 : 1) << name;
}

TEST(PillowCorpus, DecodedAndResizedPicturesArePillows) {
  std::istringstream text(read_file(STRETTO_CORPUS "/../media/pillow.txt"));
  std::string line, file, name;
  PictureInfo info;
  int pictures = 0, views = 0, largest = 0;
  double sum = 0;
  while (std::getline(text, line)) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string word;
    words >> word;
    SCOPED_TRACE(line.substr(0, 60));
    if (word.find('.') != std::string::npos) {
      name = word;
      file = read_file(kFolder + name);
      info = read_info(bytes_of(file));
      Size size;
      uint64_t hash = 0;
      words >> size.width >> size.height >> hash;
      EXPECT_EQ(oriented_size(info.width, info.height, info.orientation), size);
      const RgbPicture picture = decode_rgb(bytes_of(file));
      EXPECT_EQ(picture.width, info.width);
      EXPECT_EQ(fnv1a(picture.rgb), hash) << "pixels of the whole picture";
      ++pictures;
      continue;
    }
    Line l{.filter = word};
    words >> l.edge >> l.box.x0 >> l.box.y0 >> l.box.x1 >> l.box.y1 >> l.width >> l.height >> l.hex;
    const View view = view_of(l, info.orientation);
    Buffer buffer;
    FuseScratch scratch;
    const Region region = needed_region(view, info.width, info.height);
    const Planes planes = decode_planes(bytes_of(file), region, {}, buffer);
    std::vector<uint8_t> out(static_cast<size_t>(3 * l.width * l.height));
    for (const Isa isa : usable_isas()) {
      fuse(planes, view, std::nullopt, interleaved_target(out.data(), DType::kUInt8, l.width),
           scratch, isa);
      const Difference d = difference(out, l.hex);
      expect_close(d, name, planes.colour == Colour::kYCbCr);
      sum += d.mean;
      largest = std::max(largest, d.largest);
      ++views;
    }
  }
  EXPECT_EQ(pictures, 16);
  std::printf("%d views: mean |difference| %.3f, largest %d of 255\n", views, sum / views, largest);
}

TEST(PillowCorpus, EveryPrefixIsRefused) {
  for (const char* name : {"alpha.png", "grey16.png", "alpha.webp", "lossy.webp", "turned.jpg"}) {
    const std::string file = read_file(kFolder + name);
    for (size_t n = 0; n < file.size() - 24; n += 1 + n / 40) {
      SCOPED_TRACE(fmt::format("{} bytes of {}", n, name));
      EXPECT_THROW(decode_rgb(bytes_of(file).first(n)), Error);
    }
  }
}

TEST(PillowCorpus, LargePicturesAreRefused) {
  for (const char* name : {"alpha.png", "alpha.webp", "ycc420.jpg"}) {
    const std::string file = read_file(kFolder + name);
    EXPECT_THROW(decode_rgb(bytes_of(file), {.max_pixels = 100}), Unsupported) << name;
  }
}

}  // namespace
}  // namespace stretto::media
