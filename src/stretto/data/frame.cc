// Which part of a picture a sample shows, and where its parts go in a batch.
#include <algorithm>

#include "stretto/data/sample_work.h"
#include "stretto/media/letterbox.h"

namespace stretto::data {
namespace {

// torchvision's recipes resize the shorter side to 256 for a crop of 224.
int64_t resized_side(const Shape& shape) {
  return media::recipe_side(std::max(shape.height, shape.width));
}

// In training.
media::Box drawn_box(const LoaderOptions& o, const Shape& shape, const Draws& draws,
                     media::Size size, std::span<const Annotation> annotations) {
  const media::Region whole{0, 0, size.width, size.height};
  media::SampleRandom random(draws.seed, draws.epoch, draws.number, media::Draw::kCrop);
  if (o.iou_crop) {
    std::vector<media::Box> boxes;
    for (const Annotation& a : annotations) {
      boxes.push_back({.x0 = static_cast<double>(a.x0),
                       .y0 = static_cast<double>(a.y0),
                       .x1 = static_cast<double>(a.x1),
                       .y1 = static_cast<double>(a.y1)});
    }
    return box_of(media::random_iou_crop(boxes, size.width, size.height, random));
  }
  if (o.fit == Fit::kLetterbox && shape.crop.min_area >= 1) return box_of(whole);
  return box_of(media::random_crop(shape.crop, size.width, size.height, random));
}

// In the middle of a result of `shape`.
void fit_inside(const Shape& shape, Framed& framed) {
  media::View& view = framed.view;
  const media::Region inside =
      media::letterbox(view.box.width(), view.box.height(), {shape.width, shape.height});
  view.width = inside.width();
  view.height = inside.height();
  framed.left = inside.x0;
  framed.top = inside.y0;
}

// To whole cache lines.
int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Framed frame_of(const LoaderOptions& o, const Shape& shape, const Draws& draws, int64_t width,
                int64_t height, int orientation, std::span<const Annotation> boxes) {
  const media::Size size = media::oriented_size(width, height, orientation);
  Framed framed{.view = {.width = shape.width,
                         .height = shape.height,
                         .filter = o.filter,
                         .orientation = orientation}};
  media::View& view = framed.view;
  if (o.train) {
    media::SampleRandom flip(draws.seed, draws.epoch, draws.number, media::Draw::kFlip);
    view.box = drawn_box(o, shape, draws, size, boxes);
    view.edge = media::Edge::kBox;
    view.flip = flip.flip(o.flip);
  } else if (o.fit == Fit::kLetterbox) {
    view.box = {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
  } else {
    view.box =
        media::centre_crop(size.width, size.height, resized_side(shape), shape.width, shape.height);
  }
  if (o.fit == Fit::kLetterbox) fit_inside(shape, framed);
  return framed;
}

SlotLayout slot_layout(const LoaderOptions& o, const Shape& shape, int64_t classes, int64_t count) {
  SlotLayout layout;
  layout.picture = sample_elements(shape) * static_cast<int64_t>(dtype_bytes(o.dtype));
  if (o.masks) {
    layout.mask = shape.height * shape.width * static_cast<int64_t>(dtype_bytes(o.mask_dtype));
  }
  layout.classes = classes;
  layout.masks = whole_lines(count * layout.picture);
  layout.targets = whole_lines(layout.masks + count * layout.mask);
  layout.bytes = layout.targets + count * classes * static_cast<int64_t>(sizeof(float));
  return layout;
}

}  // namespace stretto::data
