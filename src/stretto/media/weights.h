// The taps of a resampling along one axis: which samples an output takes, and with which weights.
#pragma once

#include <cstdint>
#include <vector>

namespace stretto::media {

// Pillow's filters of the same names: the mean of a pixel's area, the triangle (bilinear), and the
// cubic with a = -0.5. Each is widened by the scale when a picture is made smaller (antialiasing).
enum class Filter : uint8_t { kBox, kTriangle, kCubic };

// Output o takes samples first[o] .. first[o] + count - 1 with weights weight[o * count + t]. The
// count is the same for all, so that loops have no branch in them: some weights are 0.
struct Taps {
  int64_t outputs = 0, count = 0;
  int64_t begin = 0, end = 0;  // of the samples that any output takes
  std::vector<int32_t> first;
  std::vector<float> weight;
};

// One axis of a picture and what is made of it.
struct Axis {
  int64_t pixels = 0;         // of the whole picture along this axis
  double begin = 0, end = 0;  // of the box in it; 0 <= begin < end <= pixels
  int64_t outputs = 0;
  int64_t low = 0, high = 0;  // pixels that may be taken: all for Image.resize(box=), those of the
                              // box for a crop that is resized afterwards
  bool reversed = false;      // the first output shows the end of the box
};

// Taps by Pillow's rule, in double precision, rounded to float. Throws InvalidArgument if the axis
// is none or needs more than 2^28 weights.
Taps make_taps(const Axis& axis, Filter filter);

// The same on samples that stand for `ratio` pixels each, as the chroma of a JPEG file: what
// make_taps() does to pixels that were made of the `samples` samples by libjpeg's upsampling, in
// one step. That is a triangle filter for a ratio of 2, and repetition for others.
Taps make_taps(const Axis& axis, Filter filter, int ratio, int64_t samples);

// Pixels begin .. end - 1 are those that make_taps(axis, filter) gives to any output. Cheap.
struct PixelRange {
  int64_t begin = 0, end = 0;
};
PixelRange pixels_taken(const Axis& axis, Filter filter);

}  // namespace stretto::media
