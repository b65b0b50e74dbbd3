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

}  // namespace stretto::media::png
