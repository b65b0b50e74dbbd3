#include "stretto/media/operators/geometry.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/media/fuse_plan.h"

namespace stretto::media::operators {
namespace {

struct Point {
  double x, y;
};

Point moved(const Affine& a, Point p) {
  return {a.m[0] * p.x + a.m[1] * p.y + a.m[2], a.m[3] * p.x + a.m[4] * p.y + a.m[5]};
}

std::optional<Affine> inverse(const Affine& a) {
  const auto& m = a.m;
  const double det = m[0] * m[4] - m[1] * m[3];
  if (!(std::abs(det) > 1e-12)) return std::nullopt;
  Affine r{{m[4] / det, -m[1] / det, 0, -m[3] / det, m[0] / det, 0}};
  r.m[2] = -(r.m[0] * m[2] + r.m[1] * m[5]);
  r.m[5] = -(r.m[3] * m[2] + r.m[4] * m[5]);
  return r;
}

}  // namespace

Geometry geometry_of(const View& view, int64_t stored_width, int64_t stored_height,
                     const Steps& steps) {
  return {.stored_width = stored_width,
          .stored_height = stored_height,
          .orientation = view.orientation,
          .crop = view.box,
          .width = view.width,
          .height = view.height,
          .flip = view.flip,
          .affine = affine_of(steps, {view.width, view.height})};
}

std::optional<Box> map_box(const Box& box, const Geometry& g, const BoxLimits& limits) {
  if (!(box.x0 < box.x1 && box.y0 < box.y1 && g.crop.width() > 0 && g.crop.height() > 0)) {
    return std::nullopt;
  }
  const std::optional<Affine> forward = inverse(g.affine);
  if (!forward) return std::nullopt;
  const auto width = static_cast<double>(g.width), height = static_cast<double>(g.height);
  const double scale_x = width / g.crop.width(), scale_y = height / g.crop.height();
  Box all{HUGE_VAL, HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  for (int corner = 0; corner < 4; ++corner) {
    Point p{((corner & 1 ? box.x1 : box.x0) - g.crop.x0) * scale_x,
            ((corner & 2 ? box.y1 : box.y0) - g.crop.y0) * scale_y};
    if (g.flip) p.x = width - p.x;
    p = moved(*forward, p);
    all = {std::min(all.x0, p.x), std::min(all.y0, p.y), std::max(all.x1, p.x),
           std::max(all.y1, p.y)};
  }
  const double area = all.width() * all.height();
  all = {std::clamp(all.x0, 0.0, width), std::clamp(all.y0, 0.0, height),
         std::clamp(all.x1, 0.0, width), std::clamp(all.y1, 0.0, height)};
  const double left = all.width() * all.height();
  if (!(left > 0 && left >= limits.min_area && left >= limits.min_visible * area)) {
    return std::nullopt;
  }
  return all;
}

void map_mask(std::span<const uint8_t> mask, const Geometry& g, uint8_t outside,
              std::span<uint8_t> result) {
  const Size seen = oriented_size(g.stored_width, g.stored_height, g.orientation);
  const auto seen_w = static_cast<double>(seen.width), seen_h = static_cast<double>(seen.height);
  if (!(g.stored_width > 0 && g.stored_height > 0 && g.width > 0 && g.height > 0 &&
        g.crop.x0 >= 0 && g.crop.x0 < g.crop.x1 && g.crop.x1 <= seen_w && g.crop.y0 >= 0 &&
        g.crop.y0 < g.crop.y1 && g.crop.y1 <= seen_h)) {
    throw_invalid("mask: the crop from ({}, {}) to ({}, {}) of a picture of {}x{} to {}x{}",
                  g.crop.x0, g.crop.y0, g.crop.x1, g.crop.y1, seen.width, seen.height, g.width,
                  g.height);
  }
  if (std::ssize(mask) < g.stored_width * g.stored_height ||
      std::ssize(result) < g.width * g.height) {
    throw_invalid("mask: {} bytes of {}x{} pixels to {} bytes of {}x{}", mask.size(),
                  g.stored_width, g.stored_height, result.size(), g.width, g.height);
  }
  const Turn turn = turn_of(g.orientation);
  const auto width = static_cast<double>(g.width), height = static_cast<double>(g.height);
  uint8_t* to = result.data();
  for (int64_t y = 0; y < g.height; ++y) {
    for (int64_t x = 0; x < g.width; ++x, ++to) {
      Point p = moved(g.affine, {static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5});
      if (!(p.x >= 0 && p.x < width && p.y >= 0 && p.y < height)) {
        *to = outside;
        continue;
      }
      if (g.flip) p.x = width - p.x;
      const double px = g.crop.x0 + p.x * g.crop.width() / width;
      const double py = g.crop.y0 + p.y * g.crop.height() / height;
      int64_t sx = std::min(static_cast<int64_t>(px), seen.width - 1);
      int64_t sy = std::min(static_cast<int64_t>(py), seen.height - 1);
      if (turn.transpose) std::swap(sx, sy);
      if (turn.mirror_x) sx = g.stored_width - 1 - sx;
      if (turn.mirror_y) sy = g.stored_height - 1 - sy;
      *to = mask[static_cast<size_t>(sy * g.stored_width + sx)];
    }
  }
}

}  // namespace stretto::media::operators
