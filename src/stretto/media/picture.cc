#include "stretto/media/picture.h"

#include <new>

#include "stretto/base/error.h"

namespace stretto::media {

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kJpeg:
      return "JPEG";
    case Format::kPng:
      return "PNG";
    case Format::kWebp:
      return "WebP";
  }
  return "unknown";
}

uint8_t* Buffer::get(size_t bytes) {
  if (bytes > size_ || !data_) {
    constexpr size_t kAlign = 64;
    if (bytes > SIZE_MAX - kAlign) throw std::bad_alloc();
    const size_t size = (bytes + kAlign) / kAlign * kAlign;
    data_.reset();  // before the new memory is taken, so that both are never held
    size_ = 0;
    data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kAlign, size)));
    if (!data_) throw std::bad_alloc();
    size_ = size;
  }
  return data_.get();
}

void Buffer::release_above(size_t bytes) {
  if (size_ <= bytes) return;
  data_.reset();
  size_ = 0;
}

Planes planes_of_rgb(const uint8_t* rgb, int64_t width, int64_t height, int64_t stride) {
  Planes planes{.colour = Colour::kRgb, .width = width, .height = height, .count = 3};
  for (int k = 0; k < 3; ++k) {
    planes.plane[k] = {.data = rgb + k,
                       .stride = stride,
                       .step = 3,
                       .width = width,
                       .height = height,
                       .full_width = width,
                       .full_height = height};
  }
  return planes;
}

void check_region(const Region& r, int64_t width, int64_t height) {
  if (r.x0 < 0 || r.y0 < 0 || r.x0 >= r.x1 || r.y0 >= r.y1 || r.x1 > width || r.y1 > height) {
    throw_invalid("region: columns {} to {}, rows {} to {} are not inside a picture of {}x{}", r.x0,
                  r.x1, r.y0, r.y1, width, height);
  }
}

void check_size(int64_t width, int64_t height, const DecodeOptions& options) {
  if (width < 1 || height < 1) throw_unsupported("picture: a size of {}x{}", width, height);
  if (width > options.max_pixels / height) {
    throw_unsupported(
        "picture: {}x{} has more pixels than max_pixels = {} allows; raise it if the file can be "
        "trusted",
        width, height, options.max_pixels);
  }
}

}  // namespace stretto::media
