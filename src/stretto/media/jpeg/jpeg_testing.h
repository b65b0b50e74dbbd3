// JPEG files for tests, made by libjpeg from gradients, shapes and noise, and a second way to
// decode them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/media/picture.h"

namespace stretto::media::jpeg {

struct TestPicture {
  int width = 0, height = 0;
  // "grey", "ycc", "rgb", "cmyk" or "ycck".
  std::string colour = "ycc";
  int h = 1, v = 1;  // sampling factors of the first component, the others have 1
  int quality = 90;
  int restart_interval = 0;  // MCUs
  bool progressive = false, arithmetic = false, exif = false;
  uint32_t seed = 1;
};

std::vector<std::byte> make_jpeg(const TestPicture& picture);

// The components as stored, repeated to the picture's size and interleaved: by
// jpeg_read_scanlines() without smooth upsampling and colour conversion, which decode_planes() does
// not use.
std::vector<uint8_t> decode_repeated(Bytes file, int& components);

}  // namespace stretto::media::jpeg
