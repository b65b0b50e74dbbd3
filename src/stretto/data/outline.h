// Which pixels of a picture an outline covers: those that pycocotools finds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "stretto/data/details.h"

namespace stretto::data {

// What the outlines of a picture may still take, so that time and memory are bounded by the picture
// whatever its details say: many times what any picture of things needs.
struct OutlineBudget {
  OutlineBudget(int64_t width, int64_t height)
      : points(16 * longest_outline(width, height) + 2 * width * height),
        pixels(256 * width * height) {}

  // Of one polygon.
  static int64_t longest_outline(int64_t width, int64_t height) {
    return 64 * 5 * (width + height) + 1024;
  }

  int64_t points;  // to walk
  int64_t pixels;  // to paint
};

// Where the inside of a polygon begins and ends: places column * height + row in rising order, at
// each of which the pixels change between outside and inside.
std::vector<int64_t> polygon_changes(std::span<const double> polygon, int64_t width,
                                     int64_t height);

// Gives such changes of each part of an outline, whose pixels are those of any part, to `use`: one
// part is kept at a time. Throws FormatError for outlines that are damaged, of a picture of another
// size, or longer than what is left of the budget.
void each_part(const Outline& outline, int64_t width, int64_t height, OutlineBudget& budget,
               const std::function<void(std::span<const int64_t>)>& use);

// How many pixels are inside, of `pixels` in the picture.
int64_t covered_pixels(std::span<const int64_t> changes, int64_t pixels);

// Calls `change` for each pixel inside, in a map of width * height.
template <typename F>
void change_pixels(std::span<const int64_t> changes, int64_t width, int64_t height,
                   std::vector<uint8_t>& map, const F& change) {
  for (size_t i = 0; i < changes.size(); i += 2) {
    const int64_t end = i + 1 < changes.size() ? changes[i + 1] : width * height;
    int64_t x = changes[i] / height, y = changes[i] % height;
    for (int64_t at = changes[i]; at < end; ++x, y = 0) {
      uint8_t* pixel = map.data() + y * width + x;
      for (const int64_t stop = std::min(end, at + height - y); at < stop; ++at, pixel += width) {
        change(*pixel);
      }
    }
  }
}

// Throws FormatError, of the outlines of a picture.
[[noreturn]] void fail_outline(std::string_view problem);

}  // namespace stretto::data
