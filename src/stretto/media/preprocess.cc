#include "stretto/media/preprocess.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/media/letterbox.h"
#include "stretto/media/operators/normalise.h"

namespace stretto::media {
namespace {

Target target_of(const Preprocess& p, DType dtype, Channels channels, void* out) {
  Target target = channels == Channels::kFirst
                      ? planar_target(out, dtype, p.size.width, p.size.height)
                      : interleaved_target(out, dtype, p.size.width);
  target.mean = p.mean;
  target.std = p.std;
  return target;
}

Target moved(Target target, int64_t elements) {
  target.data = static_cast<std::byte*>(target.data) +
                static_cast<size_t>(elements) * dtype_bytes(target.dtype);
  return target;
}

// All of the result, a row at a time: the picture overwrites its part of it.
void fill(const Preprocess& p, const Target& target, Isa isa) {
  if (!p.fill) {
    const Region whole{0, 0, p.size.width, p.size.height};
    return operators::erase(target, p.size.width, p.size.height, {&whole, 1});
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(3 * p.size.width), static_cast<uint8_t>(*p.fill));
  const operators::Pixels row{.rgb = bytes.data(), .width = p.size.width, .height = 1};
  operators::Work work;
  for (int64_t y = 0; y < p.size.height; ++y) {
    operators::normalise(row, moved(target, y * target.row_stride), {}, work, isa);
  }
}

}  // namespace

Placed place(const Preprocess& p, int64_t width, int64_t height, int orientation) {
  const Size seen = oriented_size(width, height, orientation);
  Placed placed{.view = {.width = p.size.width,
                         .height = p.size.height,
                         .filter = p.filter,
                         .orientation = orientation}};
  View& view = placed.view;
  switch (p.fit) {
    case Fit::kShorter:
      view.box = centre_crop(seen.width, seen.height, p.shorter, p.size.width, p.size.height);
      break;
    case Fit::kStretch:
      view.box = middle_of(seen.width, seen.height, p.resized.width, p.resized.height, p.size.width,
                           p.size.height);
      break;
    case Fit::kLetterbox: {
      const auto w = static_cast<double>(seen.width), h = static_cast<double>(seen.height);
      const Region inner = letterbox(w, h, p.size);
      view.box = {.x0 = 0, .y0 = 0, .x1 = w, .y1 = h};
      view.width = inner.width();
      view.height = inner.height();
      placed.left = inner.x0;
      placed.top = inner.y0;
      break;
    }
  }
  return placed;
}

void preprocess_planes(const Preprocess& p, const Planes& planes, const Placed& placed, DType dtype,
                       Channels channels, void* out, FuseScratch& scratch, Isa isa) {
  Target target = target_of(p, dtype, channels, out);
  if (p.fit == Fit::kLetterbox) {
    fill(p, target, isa);
    target = moved(target, placed.top * target.row_stride + placed.left * target.pixel_stride);
  }
  fuse(planes, placed.view, std::nullopt, target, scratch, isa);
}

void preprocess_pixels(const Preprocess& p, const uint8_t* pixels, int64_t width, int64_t height,
                       bool grey, DType dtype, Channels channels, void* out, FuseScratch& scratch,
                       Isa isa) {
  Planes planes = planes_of_rgb(pixels, width, height, grey ? width : 3 * width);
  if (grey) {
    planes.colour = Colour::kGrey;
    planes.count = 1;
    planes.plane[0].step = 1;
  }
  preprocess_planes(p, planes, place(p, width, height, 1), dtype, channels, out, scratch, isa);
}

void preprocess_file(const Preprocess& p, Bytes file, DType dtype, Channels channels, void* out,
                     Buffer& decoded, FuseScratch& scratch, Isa isa) {
  const DecodeOptions options;
  const PictureInfo info = read_info(file);
  check_size(info.width, info.height, options);
  const Placed placed = place(p, info.width, info.height, info.orientation);
  const Region region = needed_region(placed.view, info.width, info.height);
  const Planes planes = decode_planes(file, region, options, decoded);
  preprocess_planes(p, planes, placed, dtype, channels, out, scratch, isa);
}

}  // namespace stretto::media
