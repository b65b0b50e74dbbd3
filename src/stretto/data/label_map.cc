#include "stretto/data/label_map.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/media/png.h"

namespace stretto::data {
namespace {

[[noreturn]] void fail_map(std::string_view problem) {
  throw FormatError("label map", -1, std::string(problem));
}

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
    if (!(std::abs(x) < 1e6 && std::abs(y) < 1e6)) fail_map("an outline is far from its picture");
    corners.push_back({static_cast<int>(kGrid * x + 0.5), static_cast<int>(kGrid * y + 0.5)});
  }
  std::vector<GridPoint> points;
  for (size_t i = 0; i < count; ++i) {
    GridPoint a = corners[i], b = corners[(i + 1) % count];
    const int dx = std::abs(b.x - a.x), dy = std::abs(b.y - a.y), steps = std::max(dx, dy);
    if (std::ssize(points) + steps >= most_points) fail_map("its outlines are too long");
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
    fail_map(fmt::format("its runs are of {}x{} pixels, the picture has {}x{}", outline.width,
                         outline.height, width, height));
  }
  std::vector<int64_t> changes;
  int64_t at = 0;
  for (size_t i = 0; i < outline.runs.size(); ++i) {
    if (i > 0) changes.push_back(at);
    at += outline.runs[i];
    if (at > width * height) fail_map("its runs are longer than the picture");
  }
  if (at != width * height) fail_map("its runs are shorter than the picture");
  return changes;
}

// What the outlines of a picture may still take, so that time and memory are bounded by the picture
// whatever its details say: many times what any picture of things needs.
struct Budget {
  Budget(int64_t width, int64_t height)
      : points(16 * longest_outline(width, height) + 2 * width * height),
        pixels(256 * width * height) {}

  // Of one polygon.
  static int64_t longest_outline(int64_t width, int64_t height) {
    return 64 * 5 * (width + height) + 1024;
  }

  int64_t points;  // to walk
  int64_t pixels;  // to paint
};

// What is painted, the first one first.
struct Thing {
  uint8_t value = 0;
  int64_t area = 0;
  const Outline* outline = nullptr;  // nullptr: all of the box
  const Annotation* box = nullptr;
};

int64_t area_of(std::span<const int64_t> changes, int64_t end) {
  int64_t area = 0;
  for (size_t i = 0; i < changes.size(); i += 2) {
    area += (i + 1 < changes.size() ? changes[i + 1] : end) - changes[i];
  }
  return area;
}

void fill(std::span<const int64_t> changes, uint8_t value, int64_t width, int64_t height,
          std::vector<uint8_t>& map) {
  const int64_t all = width * height;
  for (size_t i = 0; i < changes.size(); i += 2) {
    const int64_t end = i + 1 < changes.size() ? changes[i + 1] : all;
    int64_t x = changes[i] / height, y = changes[i] % height;
    for (int64_t at = changes[i]; at < end; ++x, y = 0) {
      uint8_t* pixel = map.data() + y * width + x;
      for (const int64_t stop = std::min(end, at + height - y); at < stop; ++at, pixel += width) {
        *pixel = value;
      }
    }
  }
}

// The pixels whose middle is in the box.
media::Region pixels_of(const Annotation& box, int64_t width, int64_t height) {
  const auto edge = [](float at, int64_t most) {
    return static_cast<int64_t>(
        std::ceil(std::clamp(static_cast<double>(at) - 0.5, 0.0, static_cast<double>(most))));
  };
  return {edge(box.x0, width), edge(box.y0, height), edge(box.x1, width), edge(box.y1, height)};
}

uint8_t value_of(const Outline& outline, std::span<const Annotation> annotations) {
  if (outline.box < 0) return kIgnore;
  if (outline.box >= std::ssize(annotations)) fail_map("an outline is of no box");
  const int64_t label = annotations[static_cast<size_t>(outline.box)].label;
  if (label >= kIgnore - 1) {
    throw_unsupported("label map: class {} does not fit into a byte: expected classes below {}",
                      label, kIgnore - 1);
  }
  return static_cast<uint8_t>(label + 1);
}

std::vector<int64_t> changes_within(std::span<const double> polygon, int64_t width, int64_t height,
                                    int64_t& points_left) {
  constexpr double kGrid = 5;
  if (polygon.size() < 6) return {};  // no area
  const std::vector<GridPoint> points =
      walk_edges(polygon, std::min(points_left, Budget::longest_outline(width, height)));
  points_left -= std::ssize(points);
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

// Gives the changes of each part of an outline to `use`: one part is kept at a time.
template <typename F>
void each_part(const Outline& outline, int64_t width, int64_t height, int64_t& points,
               const F& use) {
  if (!outline.runs.empty()) use(run_changes(outline, width, height));
  for (const std::vector<double>& polygon : outline.polygons) {
    if (polygon.size() % 2 != 0) fail_map("an outline has an x without a y");
    use(changes_within(polygon, width, height, points));
  }
}

// Of the outlines, and of the boxes that have none: where such a thing is, is not known.
std::vector<Thing> things_of(const Details& details, std::span<const Annotation> annotations,
                             int64_t width, int64_t height) {
  Budget budget(width, height);
  std::vector<Thing> things;
  std::vector<bool> outlined(annotations.size());
  for (const Outline& outline : details.outlines) {
    Thing thing{.value = value_of(outline, annotations), .outline = &outline};
    each_part(outline, width, height, budget.points, [&](const std::vector<int64_t>& changes) {
      thing.area += area_of(changes, width * height);
    });
    if (outline.box >= 0 && thing.area > 0) outlined[static_cast<size_t>(outline.box)] = true;
    things.push_back(thing);
  }
  for (size_t i = 0; i < annotations.size(); ++i) {
    if (outlined[i]) continue;
    const media::Region r = pixels_of(annotations[i], width, height);
    things.push_back({.value = kIgnore,
                      .area = std::max<int64_t>(r.width(), 0) * std::max<int64_t>(r.height(), 0),
                      .box = &annotations[i]});
  }
  for (const Thing& thing : things) {
    if ((budget.pixels -= thing.area) < 0) fail_map("its outlines cover it too many times");
  }
  std::stable_sort(things.begin(), things.end(), [](const Thing& a, const Thing& b) {
    const bool ignored_a = a.value == kIgnore, ignored_b = b.value == kIgnore;
    return ignored_a != ignored_b ? ignored_a : a.area > b.area;
  });
  return things;
}

void paint_outlines(const Details& details, std::span<const Annotation> annotations, int64_t width,
                    int64_t height, std::vector<uint8_t>& map) {
  int64_t points = Budget(width, height).points;
  for (const Thing& thing : things_of(details, annotations, width, height)) {
    if (thing.outline != nullptr) {
      each_part(*thing.outline, width, height, points, [&](const std::vector<int64_t>& changes) {
        fill(changes, thing.value, width, height, map);
      });
    } else if (thing.area > 0) {
      const media::Region r = pixels_of(*thing.box, width, height);
      for (int64_t y = r.y0; y < r.y1; ++y) {
        std::fill_n(map.begin() + y * width + r.x0, r.width(), thing.value);
      }
    }
  }
}

}  // namespace

std::vector<int64_t> polygon_changes(std::span<const double> polygon, int64_t width,
                                     int64_t height) {
  int64_t points = Budget(width, height).points;
  return changes_within(polygon, width, height, points);
}

void paint_label_map(const Details& details, std::span<const Annotation> annotations, int64_t width,
                     int64_t height, int64_t max_pixels, std::vector<uint8_t>& map) {
  if (details.mask.empty()) {
    map.assign(static_cast<size_t>(width * height), 0);
    paint_outlines(details, annotations, width, height, map);
    return;
  }
  media::png::IndexPicture picture =
      media::png::decode_indices(details.mask, {.max_pixels = max_pixels});
  if (picture.width != width || picture.height != height) {
    fail_map(fmt::format("it has {}x{} pixels, the picture as it is to be seen has {}x{}",
                         picture.width, picture.height, width, height));
  }
  map = std::move(picture.index);
}

}  // namespace stretto::data
