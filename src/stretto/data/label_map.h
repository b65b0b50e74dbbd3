// Label maps: a byte for each pixel of a picture that says what is there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/details.h"

namespace stretto::data {

// What no class has: pixels of crowds, of boxes whose outline is not known, and those that a
// picture does not show. Losses leave it out (ignore_index).
constexpr uint8_t kIgnore = 255;

// The label map of a picture as it is to be seen, width * height, to `map`. That of a PNG file is
// what the file says. Of outlines, pixels of a thing are its label + 1, 0 is the background, crowds
// are kIgnore, and smaller things lie on larger ones; which pixels are in an outline is what
// pycocotools says. The box of a thing that has no outline, or one without pixels, is kIgnore below
// all others. Throws FormatError or Unsupported for details that are damaged, of a picture of
// another size, of a label that is too large, or of outlines that are many times as long as those
// of any picture of this size: they are walked one at a time, and none is kept.
void paint_label_map(const Details& details, std::span<const Annotation> annotations, int64_t width,
                     int64_t height, int64_t max_pixels, std::vector<uint8_t>& map);

}  // namespace stretto::data
