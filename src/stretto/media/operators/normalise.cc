#include "stretto/media/operators/normalise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/media/elements.h"
#include "stretto/media/fuse_kernel.h"
#include "stretto/media/fuse_plan.h"
#include "stretto/media/operators/normalise_kernel.h"

namespace stretto::media::operators {
namespace {

void check_target(const Target& target) {
  if (target.data == nullptr) throw_invalid("target: it has no memory");
  check_element_type("target", target.dtype);
}

void check_pixels(const Pixels& pixels) {
  if (pixels.rgb == nullptr || pixels.width < 1 || pixels.height < 1) {
    throw_invalid("normalise: expected a picture, got {}x{}{}", pixels.width, pixels.height,
                  pixels.rgb == nullptr ? " without memory" : "");
  }
}

int64_t place(const Target& target, int64_t y, int64_t x, int64_t c) {
  return y * target.row_stride + x * target.pixel_stride + c * target.channel_stride;
}

void put_byte(const Target& target, int64_t y, int64_t x, int64_t c, uint8_t value) {
  static_cast<uint8_t*>(target.data)[place(target, y, x, c)] = value;
}

void put_scaled(const Target& target, int64_t y, int64_t x, int64_t c, float value) {
  store_float(target.data, target.dtype, place(target, y, x, c), value);
}

// Any layout, one element after the other.
void normalise_plainly(const Pixels& pixels, const Target& target, const Scaling& scaling) {
  const uint8_t* from = pixels.rgb;
  for (int64_t y = 0; y < pixels.height; ++y) {
    for (int64_t x = 0; x < pixels.width; ++x) {
      for (int64_t c = 0; c < 3; ++c, ++from) {
        if (target.dtype == DType::kUInt8) {
          put_byte(target, y, x, c, *from);
          continue;
        }
        const auto k = static_cast<size_t>(c);
        const double value = static_cast<double>(*from) * scaling.scale[k] + scaling.offset[k];
        put_scaled(target, y, x, c, static_cast<float>(value));
      }
    }
  }
}

uint8_t* element(const Target& target, int64_t index) {
  return static_cast<uint8_t*>(target.data) +
         index * static_cast<int64_t>(dtype_bytes(target.dtype));
}

}  // namespace

void erase(const Target& target, int64_t width, int64_t height, std::span<const Region> erased) {
  check_target(target);
  for (const Region& r : erased) {
    check_region(r, width, height);
    for (int64_t c = 0; c < 3; ++c) {
      const float mean = std::clamp(255 * target.mean[static_cast<size_t>(c)], 0.0f, 255.0f);
      const auto byte = static_cast<uint8_t>(mean + 0.5f);
      for (int64_t y = r.y0; y < r.y1; ++y) {
        for (int64_t x = r.x0; x < r.x1; ++x) {
          if (target.dtype == DType::kUInt8) {
            put_byte(target, y, x, c, byte);
          } else {
            put_scaled(target, y, x, c, 0);
          }
        }
      }
    }
  }
}

void normalise(const Pixels& pixels, const Target& target, std::span<const Region> erased,
               Work& work, Isa isa) {
  check_target(target);
  check_pixels(pixels);
  for (const Region& r : erased) check_region(r, pixels.width, pixels.height);
  const Scaling scaling = scaling_of(target);
  const int64_t width = pixels.width;
  const bool bytes = target.dtype == DType::kUInt8;
  if (target.pixel_stride == 1) {
    work.bytes.resize(static_cast<size_t>(3 * width));
    uint8_t* const row = work.bytes.data();
    for (int64_t y = 0; y < pixels.height; ++y) {
      uint8_t* parts[3] = {row, row + width, row + 2 * width};
      for (int64_t c = 0; bytes && c < 3; ++c) {
        parts[c] = element(target, y * target.row_stride + c * target.channel_stride);
      }
      split_channels(pixels.rgb + 3 * y * width, 3 * width, parts, width, width, 1, isa);
      for (int64_t c = 0; !bytes && c < 3; ++c) {
        const auto k = static_cast<size_t>(c);
        scale_bytes(parts[c], width, scaling.scale[k], scaling.offset[k], target.dtype,
                    element(target, y * target.row_stride + c * target.channel_stride), isa);
      }
    }
  } else if (target.pixel_stride == 3 && target.channel_stride == 1) {
    for (int64_t y = 0; y < pixels.height; ++y) {
      const uint8_t* from = pixels.rgb + 3 * y * width;
      uint8_t* const to = element(target, y * target.row_stride);
      if (bytes) {
        std::memcpy(to, from, static_cast<size_t>(3 * width));
      } else {
        scale_rgb_bytes(from, width, scaling.scale.data(), scaling.offset.data(), target.dtype, to,
                        isa);
      }
    }
  } else {
    normalise_plainly(pixels, target, scaling);
  }
  erase(target, pixels.width, pixels.height, erased);
}

void normalise_reference(const Pixels& pixels, const Target& target,
                         std::span<const Region> erased) {
  check_target(target);
  check_pixels(pixels);
  for (const Region& r : erased) check_region(r, pixels.width, pixels.height);
  normalise_plainly(pixels, target, scaling_of(target));
  erase(target, pixels.width, pixels.height, erased);
}

}  // namespace stretto::media::operators
