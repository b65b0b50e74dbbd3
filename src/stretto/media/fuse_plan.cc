#include "stretto/media/fuse_plan.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::media {
namespace {

// What chroma upsampling of JPEG reaches for, in pixels beyond those that an output takes.
constexpr int64_t kMargin = 8;

Axis axis_of(double begin, double end, int64_t pixels, int64_t outputs, Edge edge, bool reversed) {
  Axis axis{.pixels = pixels, .begin = begin, .end = end, .outputs = outputs, .reversed = reversed};
  if (reversed) {
    axis.begin = static_cast<double>(pixels) - end;
    axis.end = static_cast<double>(pixels) - begin;
  }
  axis.high = pixels;
  // Not for what is no box: make_taps() says so.
  if (edge == Edge::kBox && begin >= 0 && end <= static_cast<double>(pixels)) {
    axis.low = static_cast<int64_t>(std::floor(axis.begin));
    axis.high = static_cast<int64_t>(std::ceil(axis.end));
  }
  return axis;
}

void check_view(const View& view, int64_t width, int64_t height) {
  const Size size = oriented_size(width, height, view.orientation);
  const Box& box = view.box;
  if (!(box.x0 >= 0 && box.x0 < box.x1 && box.x1 <= static_cast<double>(size.width) &&
        box.y0 >= 0 && box.y0 < box.y1 && box.y1 <= static_cast<double>(size.height))) {
    throw_invalid("view: the box from ({}, {}) to ({}, {}) is not inside a picture of {}x{}",
                  box.x0, box.y0, box.x1, box.y1, size.width, size.height);
  }
  constexpr int64_t kMostSide = 1 << 20;
  if (view.width < 1 || view.height < 1 || view.width > kMostSide || view.height > kMostSide) {
    throw_invalid("view: expected a size of 1 to {}, got {}x{}", kMostSide, view.width,
                  view.height);
  }
}

// The pixels that an axis needs.
void widen(const Axis& axis, Filter filter, int64_t& begin, int64_t& end) {
  const PixelRange taken = pixels_taken(axis, filter);
  begin = std::max<int64_t>(taken.begin - kMargin, 0);
  end = std::min(taken.end + kMargin, axis.pixels);
}

}  // namespace

Turn turn_of(int orientation) {
  switch (orientation) {
    case 1:
      return {};
    case 2:
      return {.mirror_x = true};
    case 3:
      return {.mirror_x = true, .mirror_y = true};
    case 4:
      return {.mirror_y = true};
    case 5:
      return {.transpose = true};
    case 6:
      return {.mirror_y = true, .transpose = true};
    case 7:
      return {.mirror_x = true, .mirror_y = true, .transpose = true};
    case 8:
      return {.mirror_x = true, .transpose = true};
  }
  throw_invalid("orientation: expected 1 to 8, got {}", orientation);
}

Size oriented_size(int64_t width, int64_t height, int orientation) {
  return turn_of(orientation).transpose ? Size{height, width} : Size{width, height};
}

Axes axes_of(const View& view, int64_t width, int64_t height) {
  check_view(view, width, height);
  const Turn turn = turn_of(view.orientation);
  const Box& box = view.box;
  Axes axes{.transpose = turn.transpose};
  if (turn.transpose) {
    axes.x = axis_of(box.y0, box.y1, width, view.height, view.edge, turn.mirror_x);
    axes.y = axis_of(box.x0, box.x1, height, view.width, view.edge, turn.mirror_y);
    axes.y.reversed ^= view.flip;
  } else {
    axes.x = axis_of(box.x0, box.x1, width, view.width, view.edge, turn.mirror_x);
    axes.y = axis_of(box.y0, box.y1, height, view.height, view.edge, turn.mirror_y);
    axes.x.reversed ^= view.flip;
  }
  return axes;
}

Region needed_region(const View& view, int64_t width, int64_t height) {
  const Axes axes = axes_of(view, width, height);
  Region region;
  widen(axes.x, view.filter, region.x0, region.x1);
  widen(axes.y, view.filter, region.y0, region.y1);
  return region;
}

void make_plan(const Planes& planes, const View& view, Plan& plan) {
  if (planes.count != (planes.colour == Colour::kGrey ? 1 : 3)) {
    throw_invalid("planes: {} of a picture that is {}", planes.count,
                  planes.colour == Colour::kGrey ? "grey" : "in colour");
  }
  plan.axes = axes_of(view, planes.width, planes.height);
  for (int k = 0; k < planes.count; ++k) {
    const Plane& plane = planes.plane[k];
    int same = 0;
    while (same < k && (planes.plane[same].ratio_x != plane.ratio_x ||
                        planes.plane[same].ratio_y != plane.ratio_y ||
                        planes.plane[same].full_width != plane.full_width ||
                        planes.plane[same].full_height != plane.full_height)) {
      ++same;
    }
    if (same == k) {
      plan.made[k].x = make_taps(plan.axes.x, view.filter, plane.ratio_x, plane.full_width);
      plan.made[k].y = make_taps(plan.axes.y, view.filter, plane.ratio_y, plane.full_height);
      plan.taps[k] = &plan.made[k];
    } else {
      plan.taps[k] = plan.taps[same];
    }
    check_taps(plane, plan.taps[k]->x, plan.taps[k]->y);
  }
}

void check_taps(const Plane& plane, const Taps& x, const Taps& y) {
  if (plane.data == nullptr || x.outputs < 1 || y.outputs < 1 || x.begin < plane.x0 ||
      x.end > plane.x0 + plane.width || y.begin < plane.y0 || y.end > plane.y0 + plane.height) {
    throw_invalid(
        "planes: columns {} to {} and rows {} to {} are needed, and {} to {} and {} to {} are "
        "there; decode what needed_region() names",
        x.begin, x.end, y.begin, y.end, plane.x0, plane.x0 + plane.width, plane.y0,
        plane.y0 + plane.height);
  }
}

Scaling scaling_of(const Target& target) {
  Scaling s{};
  for (size_t c = 0; c < 3; ++c) {
    if (!(target.std[c] > 0)) throw_invalid("target: expected std > 0, got {}", target.std[c]);
    s.scale[c] = 1 / (255 * target.std[c]);
    s.offset[c] = -target.mean[c] / target.std[c];
  }
  return s;
}

Target planar_target(void* data, DType dtype, int64_t width, int64_t height) {
  return {.data = data,
          .dtype = dtype,
          .row_stride = width,
          .pixel_stride = 1,
          .channel_stride = width * height};
}

Target interleaved_target(void* data, DType dtype, int64_t width) {
  return {.data = data,
          .dtype = dtype,
          .row_stride = 3 * width,
          .pixel_stride = 3,
          .channel_stride = 1};
}

}  // namespace stretto::media
