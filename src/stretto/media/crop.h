// Which part of a picture a sample shows. Pure functions: sizes are those of the oriented picture.
#pragma once

#include <cstdint>
#include <span>

#include "stretto/media/picture.h"
#include "stretto/media/random.h"

namespace stretto::media {

struct RandomCrop {
  double min_area = 0.08, max_area = 1;           // of the picture's
  double min_ratio = 3. / 4, max_ratio = 4. / 3;  // width by height
};

// RandomResizedCrop of torchvision: an area and a ratio are drawn up to ten times until they fit;
// then the largest crop in the middle whose ratio is allowed. Throws InvalidArgument for ranges
// that are empty or not positive.
Region random_crop(const RandomCrop& crop, int64_t width, int64_t height, SampleRandom& random);

// What CenterCrop(size) of torchvision shows after Resize(resized), in the picture before it: the
// middle of the picture, size / resized of its shorter side. Box, because its edges are fractions.
struct Box {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  double width() const { return x1 - x0; }
  double height() const { return y1 - y0; }
};
// The result is `out_height` x `out_width`; the shorter side would be resized to `resized`, the
// longer one to the whole number below, and the crop begins at a whole pixel as torchvision's does.
Box centre_crop(int64_t width, int64_t height, int64_t resized, int64_t out_width,
                int64_t out_height);

// The same of a picture whose sides are resized to `full_width` and `full_height`.
Box middle_of(int64_t width, int64_t height, int64_t full_width, int64_t full_height,
              int64_t out_width, int64_t out_height);

// The side to which torchvision's recipes resize for a crop of `size`: 256 for 224.
constexpr int64_t recipe_side(int64_t size) { return size * 256 / 224; }

// RandomIoUCrop of torchvision (Liu et al., "SSD", arXiv:1512.02325): the whole picture, or a part
// of 0.3 to 1 of each side and a ratio of 0.5 to 2 that holds the middle of a box, and whose
// intersection over union with such a box reaches a bound that is drawn. Without boxes, the whole.
Region random_iou_crop(std::span<const Box> boxes, int64_t width, int64_t height,
                       SampleRandom& random);

inline Box box_of(const Region& r) {
  return {static_cast<double>(r.x0), static_cast<double>(r.y0), static_cast<double>(r.x1),
          static_cast<double>(r.y1)};
}

}  // namespace stretto::media
