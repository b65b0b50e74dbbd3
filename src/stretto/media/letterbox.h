// Where the whole of a picture, or a part of it, lies in a result of another shape: as large as it
// can be, in the middle. The loader and the steps of a model both place by this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "stretto/media/picture.h"

namespace stretto::media {

// What is `width` by `height` in a result of `size`, at least one pixel where it is a thin line.
inline Region letterbox(double width, double height, Size size) {
  const double scale =
      std::min(static_cast<double>(size.width) / width, static_cast<double>(size.height) / height);
  const auto side = [&](double full, int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(full * scale)), 1, most);
  };
  const int64_t w = side(width, size.width), h = side(height, size.height);
  const int64_t left = (size.width - w) / 2, top = (size.height - h) / 2;
  return {left, top, left + w, top + h};
}

}  // namespace stretto::media
