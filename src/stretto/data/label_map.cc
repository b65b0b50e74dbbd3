#include "stretto/data/label_map.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/data/outline.h"
#include "stretto/media/png.h"

namespace stretto::data {
namespace {

// What is painted, the first one first.
struct Thing {
  uint8_t value = 0;
  int64_t area = 0;
  const Outline* outline = nullptr;  // nullptr: all of the box
  const Annotation* box = nullptr;
};

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
  if (outline.box >= std::ssize(annotations)) fail_outline("an outline is of no box");
  const int64_t label = annotations[static_cast<size_t>(outline.box)].label;
  if (label >= kIgnore - 1) {
    throw_unsupported("label map: class {} does not fit into a byte: expected classes below {}",
                      label, kIgnore - 1);
  }
  return static_cast<uint8_t>(label + 1);
}

// Of the outlines, and of the boxes that have none: where such a thing is, is not known.
std::vector<Thing> things_of(const Details& details, std::span<const Annotation> annotations,
                             int64_t width, int64_t height) {
  OutlineBudget budget(width, height);
  std::vector<Thing> things;
  std::vector<bool> outlined(annotations.size());
  for (const Outline& outline : details.outlines) {
    Thing thing{.value = value_of(outline, annotations), .outline = &outline};
    each_part(outline, width, height, budget, [&](std::span<const int64_t> changes) {
      thing.area += covered_pixels(changes, width * height);
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
    if ((budget.pixels -= thing.area) < 0) fail_outline("its outlines cover it too many times");
  }
  std::stable_sort(things.begin(), things.end(), [](const Thing& a, const Thing& b) {
    const bool ignored_a = a.value == kIgnore, ignored_b = b.value == kIgnore;
    return ignored_a != ignored_b ? ignored_a : a.area > b.area;
  });
  return things;
}

void paint_outlines(const Details& details, std::span<const Annotation> annotations, int64_t width,
                    int64_t height, std::vector<uint8_t>& map) {
  OutlineBudget budget(width, height);
  for (const Thing& thing : things_of(details, annotations, width, height)) {
    if (thing.outline != nullptr) {
      each_part(*thing.outline, width, height, budget, [&](std::span<const int64_t> changes) {
        change_pixels(changes, width, height, map,
                      [value = thing.value](uint8_t& pixel) { pixel = value; });
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
    throw FormatError("label map", -1,
                      fmt::format("it has {}x{} pixels, the picture as it is to be seen has {}x{}",
                                  picture.width, picture.height, width, height));
  }
  map = std::move(picture.index);
}

}  // namespace stretto::data
