#include "stretto/media/webp.h"

#include <webp/decode.h>

#include <cstring>
#include <new>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/markers.h"

namespace stretto::media::webp {
namespace {

constexpr const char* kName = "WebP data";

const uint8_t* data_of(Bytes file) { return reinterpret_cast<const uint8_t*>(file.data()); }

const char* reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the data ends early";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "the data is damaged";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it has a feature that libwebp does not know";
    default:
      return "libwebp cannot decode it";
  }
}

WebPBitstreamFeatures features_of(Bytes file) {
  if (!is_webp(file)) throw FormatError(kName, 0, "expected RIFF and WEBP");
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(data_of(file), file.size(), &features);
  if (status != VP8_STATUS_OK) throw FormatError(kName, -1, reason(status));
  return features;
}

// The orientation in the chunk EXIF of the extended form, whose chunks follow 12 bytes of header.
int find_orientation(Bytes file) {
  constexpr size_t kHeader = 12, kChunk = 8;
  size_t at = kHeader;
  while (file.size() - at >= kChunk) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= std::to_integer<size_t>(file[at + 4 + i]) << 8 * i;
    if (length > file.size() - at - kChunk) return 1;
    if (std::memcmp(file.data() + at, "EXIF", 4) == 0) {
      Bytes block = file.subspan(at + kChunk, length);
      // Some writers keep the prefix that the block has in JPEG files.
      if (length >= 6 && std::memcmp(block.data(), "Exif\0\0", 6) == 0) block = block.subspan(6);
      return jpeg::exif_orientation(block);
    }
    at += kChunk + length;
    if (length % 2 != 0 && at < file.size()) ++at;
  }
  return 1;
}

// To what memory(width, height, bytes) gives.
template <typename Memory>
void decode_to(Bytes file, const DecodeOptions& options, const Memory& memory) {
  const WebPBitstreamFeatures features = features_of(file);
  if (features.has_animation) throw_unsupported("WebP: animations");
  check_size(features.width, features.height, options);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) {
    throw_unsupported("WebP: the libwebp that runs is not the one that Stretto was built with");
  }
  const int64_t stride = int64_t{3} * features.width;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.size = static_cast<size_t>(stride * features.height);
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.rgba = memory(features.width, features.height, config.output.u.RGBA.size);
  const VP8StatusCode status = WebPDecode(data_of(file), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != VP8_STATUS_OK) throw FormatError(kName, -1, reason(status));
}

}  // namespace

bool is_webp(Bytes file) {
  return file.size() >= 12 && std::memcmp(file.data(), "RIFF", 4) == 0 &&
         std::memcmp(file.data() + 8, "WEBP", 4) == 0;
}

PictureInfo read_info(Bytes file) {
  const WebPBitstreamFeatures features = features_of(file);
  return {.format = Format::kWebp,
          .width = features.width,
          .height = features.height,
          .components = features.has_alpha ? 4 : 3,
          .orientation = find_orientation(file)};
}

RgbPicture decode_rgb(Bytes file, const DecodeOptions& options) {
  RgbPicture picture;
  decode_to(file, options, [&](int64_t width, int64_t height, size_t bytes) {
    picture = {.width = width, .height = height};
    picture.rgb.resize(bytes);
    return picture.rgb.data();
  });
  return picture;
}

Planes decode_planes(Bytes file, const DecodeOptions& options, Buffer& buffer) {
  Planes planes;
  decode_to(file, options, [&](int64_t width, int64_t height, size_t bytes) {
    uint8_t* const rgb = buffer.get(bytes);
    planes = planes_of_rgb(rgb, width, height, 3 * width);
    return rgb;
  });
  return planes;
}

}  // namespace stretto::media::webp
