#include "stretto/media/decode.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/markers.h"
#include "stretto/media/png.h"
#include "stretto/media/webp.h"

namespace stretto::media {
namespace {

constexpr FormatRow kFormats[] = {
    {Format::kJpeg, jpeg::is_jpeg, jpeg::read_info, jpeg::decode_rgb},
    {Format::kPng, png::is_png, png::read_info, png::decode_rgb},
    {Format::kWebp, webp::is_webp, webp::read_info, webp::decode_rgb},
};

}  // namespace

std::span<const FormatRow> formats() { return kFormats; }

const FormatRow& format_of(Bytes file) {
  const auto* row = std::find_if(std::begin(kFormats), std::end(kFormats),
                                 [&](const FormatRow& r) { return r.matches(file); });
  if (row == std::end(kFormats)) {
    throw FormatError("picture", 0, "expected a JPEG, PNG or WebP file");
  }
  return *row;
}

PictureInfo read_info(Bytes file) { return format_of(file).read_info(file); }

RgbPicture decode_rgb(Bytes file, const DecodeOptions& options) {
  return format_of(file).decode_rgb(file, options);
}

Planes decode_planes(Bytes file, const Region& region, const DecodeOptions& options,
                     Buffer& buffer) {
  const FormatRow& row = format_of(file);
  if (row.format == Format::kJpeg) return jpeg::decode_planes(file, region, options, buffer);
  const Planes planes = row.format == Format::kPng ? png::decode_planes(file, options, buffer)
                                                   : webp::decode_planes(file, options, buffer);
  check_region(region, planes.width, planes.height);
  return planes;
}

}  // namespace stretto::media
