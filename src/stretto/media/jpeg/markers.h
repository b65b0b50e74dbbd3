// The markers of a JPEG file (ITU-T T.81, annex B), read without a decoder: every byte is checked
// to be there before it is looked at, and nothing is copied but the numbers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stretto/media/picture.h"

namespace stretto::media::jpeg {

// A segment before the first scan, from its 0xFF to its end.
struct Segment {
  uint8_t marker;
  size_t begin, end;
};

// A component of the frame.
struct Component {
  int id = 0, h = 1, v = 1, quantisation = 0;
};

// Everything before the entropy-coded data of the first scan.
struct Headers {
  int frame = 0;  // the marker of the frame: 0xC0 baseline, 0xC2 progressive, ...
  int bits = 0;
  int64_t width = 0, height = 0;
  std::vector<Component> components;  // 1 to 4
  int64_t restart_interval = 0;       // in MCUs; 0: none
  int orientation = 1;
  bool jfif = false;
  int adobe_transform = -1;       // -1: no Adobe marker
  int components_in_scan = 0;     // of the first scan
  std::vector<Segment> segments;  // SOI and everything up to SOS, which is the last
  size_t size_at = 0;             // where the frame's height (2 bytes) and width (2 bytes) stand
  size_t data = 0;                // where the entropy-coded data begins

  int max_h() const;
  int max_v() const;
};

// Throws FormatError with the offset at which the file is wrong.
Headers read_headers(Bytes file);

bool is_jpeg(Bytes file);
PictureInfo read_info(Bytes file);

// The orientation that an EXIF block (after "Exif\0\0") names, else 1. PNG and WebP carry one too.
int exif_orientation(Bytes block);

}  // namespace stretto::media::jpeg
