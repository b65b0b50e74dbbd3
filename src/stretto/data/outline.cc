#include "stretto/data/outline.h"

#include <cmath>
#include <string>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

struct GridPoint {
  int x, y;
};

// Points of the lines that join the corners, on a grid of a fifth of a pixel, as pycocotools'
// rleFrPoly() walks them: all of an edge in its direction, corners twice.
std::vector<GridPoint> walk_edges(std::span<const double> polygon, int64_t most_points) {
  constexpr double kGrid = 5;
  const size_t count = polygon.size() / 2;
  std::vector<GridPoint> corners;
  for (size_t i = 0; i < count; ++i) {
    const double x = polygon[2 * i], y = polygon[2 * i + 1];
    if (!(std::abs(x) < 1e6 && std::abs(y) < 1e6))
      fail_outline("an outline is far from its picture");
    corners.push_back({static_cast<int>(kGrid * x + 0.5), static_cast<int>(kGrid * y + 0.5)});
  }
  std::vector<GridPoint> points;
  for (size_t i = 0; i < count; ++i) {
    GridPoint a = corners[i], b = corners[(i + 1) % count];
    const int dx = std::abs(b.x - a.x), dy = std::abs(b.y - a.y), steps = std::max(dx, dy);
    if (std::ssize(points) + steps >= most_points) fail_outline("its outlines are too long");
    // A line is computed from its lesser end, so that it is the same in both directions.
    const bool flat = dx >= dy, back = flat ? a.x > b.x : a.y > b.y;
    if (back) std::swap(a, b);
    const double slope = steps == 0 ? 0
                         : flat     ? static_cast<double>(b.y - a.y) / dx
                                    : static_cast<double>(b.x - a.x) / dy;
    for (int d = 0; d <= steps; ++d) {
      const int t = back ? steps - d : d;
      if (flat) {
        points.push_back({a.x + t, static_cast<int>(a.y + slope * t + 0.5)});
      } else {
        points.push_back({static_cast<int>(a.x + slope * t + 0.5), a.y + t});
      }
    }
  }
  return points;
}

// The changes of runs, checked to be of this picture.
std::vector<int64_t> run_changes(const Outline& outline, int64_t width, int64_t height) {
  if (outline.width != width || outline.height != height) {
    fail_outline(fmt::format("its runs are of {}x{} pixels, the picture has {}x{}", outline.width,
                             outline.height, width, height));
  }
  std::vector<int64_t> changes;
  int64_t at = 0;
  for (size_t i = 0; i < outline.runs.size(); ++i) {
    if (i > 0) changes.push_back(at);
    at += outline.runs[i];
    if (at > width * height) fail_outline("its runs are longer than the picture");
  }
  if (at != width * height) fail_outline("its runs are shorter than the picture");
  return changes;
}

std::vector<int64_t> changes_within(std::span<const double> polygon, int64_t width, int64_t height,
                                    OutlineBudget& budget) {
  constexpr double kGrid = 5;
  if (polygon.size() < 6) return {};  // no area
  const std::vector<GridPoint> points =
      walk_edges(polygon, std::min(budget.points, OutlineBudget::longest_outline(width, height)));
  budget.points -= std::ssize(points);
  std::vector<int64_t> crossings;
  for (size_t i = 1; i < points.size(); ++i) {
    const GridPoint from = points[i - 1], to = points[i];
    if (from.x == to.x) continue;
    // Only where the line crosses the middle of a column of pixels.
    const double x = ((to.x < from.x ? to.x : to.x - 1) + 0.5) / kGrid - 0.5;
    if (x != std::floor(x) || x < 0 || x > static_cast<double>(width - 1)) continue;
    const double y = (std::min(from.y, to.y) + 0.5) / kGrid - 0.5;
    const auto row =
        static_cast<int64_t>(std::ceil(std::clamp(y, 0.0, static_cast<double>(height))));
    crossings.push_back(static_cast<int64_t>(x) * height + row);
  }
  std::sort(crossings.begin(), crossings.end());
  // Two changes at one place are none; one behind the last pixel is none.
  std::vector<int64_t> changes;
  for (const int64_t at : crossings) {
    if (!changes.empty() && changes.back() == at) {
      changes.pop_back();
    } else {
      changes.push_back(at);
    }
  }
  if (!changes.empty() && changes.back() == width * height) changes.pop_back();
  return changes;
}

}  // namespace

void fail_outline(std::string_view problem) {
  throw FormatError("outlines", -1, std::string(problem));
}

std::vector<int64_t> polygon_changes(std::span<const double> polygon, int64_t width,
                                     int64_t height) {
  OutlineBudget budget(width, height);
  return changes_within(polygon, width, height, budget);
}

void each_part(const Outline& outline, int64_t width, int64_t height, OutlineBudget& budget,
               const std::function<void(std::span<const int64_t>)>& use) {
  if (!outline.runs.empty()) use(run_changes(outline, width, height));
  for (const std::vector<double>& polygon : outline.polygons) {
    if (polygon.size() % 2 != 0) fail_outline("an outline has an x without a y");
    use(changes_within(polygon, width, height, budget));
  }
}

int64_t covered_pixels(std::span<const int64_t> changes, int64_t pixels) {
  int64_t area = 0;
  for (size_t i = 0; i < changes.size(); i += 2) {
    area += (i + 1 < changes.size() ? changes[i + 1] : pixels) - changes[i];
  }
  return area;
}

}  // namespace stretto::data
