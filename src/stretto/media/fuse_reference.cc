// fuse() as its definition says, in double precision, one output after the other.
#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/media/elements.h"
#include "stretto/media/fuse.h"
#include "stretto/media/fuse_plan.h"

namespace stretto::media {
namespace {

double sample_at(const Plane& plane, const Taps& x, const Taps& y, int64_t column, int64_t row) {
  double sum = 0;
  for (int64_t j = 0; j < y.count; ++j) {
    const double wy = y.weight[static_cast<size_t>(row * y.count + j)];
    const int64_t sy = y.first[static_cast<size_t>(row)] + j - plane.y0;
    for (int64_t i = 0; i < x.count; ++i) {
      const double wx = x.weight[static_cast<size_t>(column * x.count + i)];
      const int64_t sx = x.first[static_cast<size_t>(column)] + i - plane.x0;
      sum += wy * wx * plane.data[sy * plane.stride + sx * plane.step];
    }
  }
  return sum;
}

using Pixel = std::array<double, 3>;

Pixel changed(const ColourMatrix& matrix, const Pixel& p) {
  Pixel result;
  for (size_t c = 0; c < 3; ++c) {
    const auto& m = matrix.m[c];
    result[c] = m[0] * p[0] + m[1] * p[1] + m[2] * p[2] + m[3];
  }
  return result;
}

Pixel clamped(Pixel p) {
  for (double& v : p) v = std::clamp(v, 0.0, 255.0);
  return p;
}

void store(const Target& target, int64_t at, double value, double scale, double offset) {
  if (target.dtype == DType::kUInt8) {
    static_cast<uint8_t*>(target.data)[at] = static_cast<uint8_t>(std::floor(value + 0.5));
  } else {
    store_float(target.data, target.dtype, at, static_cast<float>(value * scale + offset));
  }
}

}  // namespace

void fuse_reference(const Planes& planes, const View& view,
                    const std::optional<ColourMatrix>& colour, const Target& target) {
  check_element_type("target", target.dtype);
  Plan plan;
  make_plan(planes, view, plan);
  const Scaling scaling = scaling_of(target);
  const ColourMatrix to_rgb = ycbcr_to_rgb();
  for (int64_t y = 0; y < view.height; ++y) {
    for (int64_t x = 0; x < view.width; ++x) {
      Pixel pixel{};
      for (int k = 0; k < planes.count; ++k) {
        const PlaneTaps& taps = *plan.taps[k];
        pixel[k] = sample_at(planes.plane[k], taps.x, taps.y, plan.axes.transpose ? y : x,
                             plan.axes.transpose ? x : y);
      }
      if (planes.count == 1) pixel = {pixel[0], pixel[0], pixel[0]};
      if (planes.colour == Colour::kYCbCr) pixel = changed(to_rgb, pixel);
      pixel = clamped(pixel);
      if (colour) pixel = clamped(changed(*colour, pixel));
      for (int c = 0; c < 3; ++c) {
        store(target, y * target.row_stride + x * target.pixel_stride + c * target.channel_stride,
              pixel[c], scaling.scale[c], scaling.offset[c]);
      }
    }
  }
}

void resample_reference(const Plane& plane, const Taps& rows, const Taps& columns, float* out,
                        int64_t stride) {
  check_taps(plane, columns, rows);
  for (int64_t y = 0; y < rows.outputs; ++y) {
    for (int64_t x = 0; x < columns.outputs; ++x) {
      out[y * stride + x] = static_cast<float>(sample_at(plane, columns, rows, x, y));
    }
  }
}

}  // namespace stretto::media
