// What the decoders give and take: facts about a picture, its pixels, and the limits on both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace stretto::media {

using Bytes = std::span<const std::byte>;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class Format : uint8_t { kJpeg, kPng, kWebp };
std::string_view format_name(Format format);  // "JPEG", "PNG", "WebP"

// What the samples of a decoded picture mean.
enum class Colour : uint8_t { kGrey, kYCbCr, kRgb };

// What a file says about its picture, without decoding it.
struct PictureInfo {
  Format format = Format::kJpeg;
  int64_t width = 0, height = 0;  // as stored, before `orientation` is applied
  int components = 0;             // as stored: 1 to 4; 3 for a palette
  int bits = 8;                   // of one component
  int orientation = 1;            // EXIF, 1 to 8; 1 where the file has none or a wrong one

  // Of JPEG only.
  std::array<int, 4> h{1, 1, 1, 1}, v{1, 1, 1, 1};  // sampling factors of the components
  bool progressive = false, arithmetic = false;
  int64_t restart_interval = 0;  // in MCUs, before the first scan; 0: none
};

// What a decoder does with what it is given. Files come from anywhere, so each limit has a default.
struct DecodeOptions {
  // Larger pictures are refused before memory is taken for them. The default is the size above
  // which Pillow refuses too: whatever a pipeline of Pillow reads is read. A file of a few
  // kilobytes that stays below it can take 0.5 GB for its pixels, as much again for the part of
  // them that is resampled, and 2 GB while a progressive JPEG file is decoded. Lower it for files
  // from strangers.
  int64_t max_pixels = 178'956'970;
  // Whether data that ends early or is damaged gives the pixels that could be decoded. Otherwise it
  // is an error, because a grey half of a picture spoils training silently. JPEG only.
  bool allow_damaged = false;
};

// Whole pixels of a stored picture: columns x0 to x1 - 1, rows y0 to y1 - 1.
struct Region {
  int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  int64_t width() const { return x1 - x0; }
  int64_t height() const { return y1 - y0; }
  bool operator==(const Region&) const = default;
};

// Memory that is reused from picture to picture: it grows until it is released, and is never
// cleared.
class Buffer {
 public:
  // At least `bytes`, aligned to 64. Invalidates what was got before. Throws std::bad_alloc.
  uint8_t* get(size_t bytes);
  // Frees it if it has more bytes.
  void release_above(size_t bytes);

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0;
};

// Samples of one component, or of a part of it. Sample (x, y) of the component lies at
// data[(y - y0) * stride + (x - x0) * step], where x0 <= x < x0 + width and likewise y.
struct Plane {
  const uint8_t* data = nullptr;
  int64_t stride = 0, step = 1;
  int64_t x0 = 0, y0 = 0, width = 0, height = 0;  // what is there
  int64_t full_width = 0, full_height = 0;        // of the component of the whole picture
  int ratio_x = 1, ratio_y = 1;                   // pixels of the picture per sample
};

// One plane (grey) or three. They point into memory that the caller keeps.
struct Planes {
  Colour colour = Colour::kGrey;
  int64_t width = 0, height = 0;  // of the whole stored picture
  int count = 0;
  std::array<Plane, 3> plane;
};

// A decoded picture: 8-bit R, G, B, R, ... in rows without padding.
struct RgbPicture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

// An RgbPicture, or other memory of such rows, as three planes of every third byte.
Planes planes_of_rgb(const uint8_t* rgb, int64_t width, int64_t height, int64_t stride);

// Throws InvalidArgument if the region is empty or not inside a picture of this size.
void check_region(const Region& region, int64_t width, int64_t height);

// Throws Unsupported if the options refuse a picture of this size.
void check_size(int64_t width, int64_t height, const DecodeOptions& options);

}  // namespace stretto::media
