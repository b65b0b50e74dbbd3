// Boxes and masks that follow a picture through its crop, resize, mirror and picture operators.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {

// How the result was made of the stored picture: turned by EXIF, cropped and resized, mirrored,
// then moved by operators.
struct Geometry {
  int64_t stored_width = 0, stored_height = 0;
  int orientation = 1;
  Box crop;                       // in the picture as it is to be seen, as View::box
  int64_t width = 0, height = 0;  // of the result
  bool flip = false;
  std::vector<Affine> moves;  // of operators, in their order
};
// `size`: of the view.
Geometry geometry_of(const View& view, int64_t stored_width, int64_t stored_height,
                     const Steps& steps, Size size);

// Which boxes are left.
struct BoxLimits {
  double min_area = 1;  // in pixels of the result, after clipping
  // Share of the box that the result shows, 0 to 1: the share of its area that lies in the crop,
  // times the share of what each move makes of it that lies in the result.
  double min_visible = 0;
};

// A box of the picture as it is to be seen (as data::Annotation) in the result: clipped to the
// crop, then by each move the smallest that holds its corners, clipped, as by torchvision. Nothing
// if it is dropped, or is no box, or a move has no inverse.
std::optional<Box> map_box(const Box& box, const Geometry& geometry, const BoxLimits& limits);

// One byte per pixel of the stored picture, which stands for a class, to one per pixel of the
// result, width * height without padding: the nearest pixel, in moves that which operators take of
// the picture; `outside` where there is none. Throws
// InvalidArgument for a crop that is not inside the picture, sizes that are not positive, and
// memory that is too small.
void map_mask(std::span<const uint8_t> mask, const Geometry& geometry, uint8_t outside,
              std::span<uint8_t> result);

}  // namespace stretto::media::operators
