// WebP files to RGB, by libwebp.
#pragma once

#include "stretto/media/picture.h"

namespace stretto::media::webp {

bool is_webp(Bytes file);
PictureInfo read_info(Bytes file);

// As Pillow's convert("RGB"): alpha is dropped. Unsupported for animations.
RgbPicture decode_rgb(Bytes file, const DecodeOptions& options = {});
// The same in `buffer`.
Planes decode_planes(Bytes file, const DecodeOptions& options, Buffer& buffer);

}  // namespace stretto::media::webp
