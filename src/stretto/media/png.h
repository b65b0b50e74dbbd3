// PNG files to RGB, by libpng.
#pragma once

#include "stretto/media/picture.h"

namespace stretto::media::png {

bool is_png(Bytes file);
PictureInfo read_info(Bytes file);

// As Pillow's convert("RGB"): alpha and transparency are dropped, a palette is looked up, gamma is
// left alone. 16-bit colour keeps its high byte, and 16-bit grey above 255 becomes 255.
RgbPicture decode_rgb(Bytes file, const DecodeOptions& options = {});
// The same in `buffer`.
Planes decode_planes(Bytes file, const DecodeOptions& options, Buffer& buffer);

// A picture of one byte per pixel, in rows without padding.
struct IndexPicture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> index;
};

// The numbers that a grey or palette file of at most 8 bits stores: no palette is looked up, and
// fewer bits are not scaled up. Throws Unsupported for other files.
IndexPicture decode_indices(Bytes file, const DecodeOptions& options = {});

}  // namespace stretto::media::png
