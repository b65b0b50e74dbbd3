#include "stretto/media/operators/geometry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/media/fuse_plan.h"
#include "stretto/media/operators/kinds.h"

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

Box clipped(const Box& box, const Box& to) {
  return {std::clamp(box.x0, to.x0, to.x1), std::clamp(box.y0, to.y0, to.y1),
          std::clamp(box.x1, to.x0, to.x1), std::clamp(box.y1, to.y0, to.y1)};
}
double area_of(const Box& box) { return box.width() * box.height(); }

// The smallest box that holds the corners where they are moved to.
Box bounds_of(const Affine& forward, const Box& box) {
  Box all{HUGE_VAL, HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  for (int corner = 0; corner < 4; ++corner) {
    const Point p = moved(forward, {corner & 1 ? box.x1 : box.x0, corner & 2 ? box.y1 : box.y0});
    all = {std::min(all.x0, p.x), std::min(all.y0, p.y), std::max(all.x1, p.x),
           std::max(all.y1, p.y)};
  }
  return all;
}

}  // namespace

Geometry geometry_of(const View& view, int64_t stored_width, int64_t stored_height,
                     const Steps& steps, Size size) {
  const Size seen = oriented_size(stored_width, stored_height, view.orientation);
  std::vector<Affine> moves;
  for (const Step& step : steps) {
    if (step.op->affine != nullptr) moves.push_back(step.op->affine(step, size));
  }
  return {.stored_width = stored_width,
          .stored_height = stored_height,
          .orientation = view.orientation,
          // Without what rounding puts behind the edges.
          .crop = clipped(
              view.box, {0, 0, static_cast<double>(seen.width), static_cast<double>(seen.height)}),
          .width = size.width,
          .height = size.height,
          .flip = view.flip,
          .moves = std::move(moves)};
}

std::optional<Box> map_box(const Box& box, const Geometry& g, const BoxLimits& limits) {
  if (!(box.x0 < box.x1 && box.y0 < box.y1 && g.crop.width() > 0 && g.crop.height() > 0)) {
    return std::nullopt;
  }
  Box kept = clipped(box, g.crop);
  double visible = area_of(kept) / area_of(box);
  const Box result{0, 0, static_cast<double>(g.width), static_cast<double>(g.height)};
  const double scale_x = result.x1 / g.crop.width(), scale_y = result.y1 / g.crop.height();
  kept = {(kept.x0 - g.crop.x0) * scale_x, (kept.y0 - g.crop.y0) * scale_y,
          (kept.x1 - g.crop.x0) * scale_x, (kept.y1 - g.crop.y0) * scale_y};
  if (g.flip) kept = {result.x1 - kept.x1, kept.y0, result.x1 - kept.x0, kept.y1};
  kept = clipped(kept, result);  // again: products were rounded
  for (const Affine& move : g.moves) {
    const std::optional<Affine> forward = inverse(move);
    if (!forward || !(area_of(kept) > 0)) return std::nullopt;
    const Box all = bounds_of(*forward, kept);
    kept = clipped(all, result);
    visible *= area_of(kept) / area_of(all);
  }
  const double area = area_of(kept);
  if (!(area > 0 && area >= limits.min_area && visible >= limits.min_visible)) return std::nullopt;
  return kept;
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
  // Where the pixels of a column and of a row begin in the stored picture; their sum is the pixel.
  std::vector<int64_t> columns(static_cast<size_t>(g.width)), rows(static_cast<size_t>(g.height));
  for (int64_t x = 0; x < g.width; ++x) {
    double at = static_cast<double>(x) + 0.5;
    if (g.flip) at = width - at;
    const double px = g.crop.x0 + at * g.crop.width() / width;
    const int64_t sx = std::min(static_cast<int64_t>(px), seen.width - 1);
    columns[static_cast<size_t>(x)] =
        turn.transpose ? (turn.mirror_y ? g.stored_height - 1 - sx : sx) * g.stored_width
                       : (turn.mirror_x ? g.stored_width - 1 - sx : sx);
  }
  for (int64_t y = 0; y < g.height; ++y) {
    const double at = static_cast<double>(y) + 0.5;
    const double py = g.crop.y0 + at * g.crop.height() / height;
    const int64_t sy = std::min(static_cast<int64_t>(py), seen.height - 1);
    rows[static_cast<size_t>(y)] =
        turn.transpose ? (turn.mirror_x ? g.stored_width - 1 - sy : sy)
                       : (turn.mirror_y ? g.stored_height - 1 - sy : sy) * g.stored_width;
  }
  uint8_t* to = result.data();
  for (const int64_t row : rows) {
    for (const int64_t column : columns) *to++ = mask[static_cast<size_t>(row + column)];
  }
  std::vector<uint8_t> before;
  for (const Affine& move : g.moves) {
    const auto end = result.begin() + g.width * g.height;
    before.assign(result.begin(), end);
    move_mask(move, before.data(), {g.width, g.height}, outside, result.data());
  }
}

}  // namespace stretto::media::operators
