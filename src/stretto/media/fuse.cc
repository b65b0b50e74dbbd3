#include "stretto/media/fuse.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/media/elements.h"
#include "stretto/media/fuse_kernel.h"
#include "stretto/media/fuse_plan.h"

namespace stretto::media {
namespace {

// The samples that the taps take, and more to have whole vectors where the plane has them.
KernelPlane window_of(const Plane& plane, const PlaneTaps& taps, Isa isa) {
  KernelPlane w{.stride = plane.stride, .x = &taps.x, .y = &taps.y};
  const int64_t lanes = isa_lanes(isa), needed = taps.x.end - taps.x.begin;
  const int64_t whole = ceil_div(needed, lanes) * lanes;
  w.width = whole <= plane.width ? whole : needed;
  w.first_x = std::min(taps.x.begin, plane.x0 + plane.width - w.width);
  w.first_y = taps.y.begin;
  w.data = plane.data + (w.first_y - plane.y0) * plane.stride + (w.first_x - plane.x0) * plane.step;
  return w;
}

// Kernels read samples that lie side by side: the window of other planes is copied into `buffer`.
void gather(KernelPlane& window, int64_t step, uint8_t* to, int64_t stride) {
  const int64_t rows = window.y->end - window.first_y;
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < window.width; ++x) {
      to[y * stride + x] = window.data[y * window.stride + x * step];
    }
  }
  window.data = to;
  window.stride = stride;
}

void gather_planes(const Planes& planes, KernelJob& job, Buffer& buffer, Isa isa) {
  const auto is_apart = [&](int k) { return planes.plane[k].step != 1; };
  if (std::none_of(&planes.plane[0], &planes.plane[0] + planes.count,
                   [](const Plane& p) { return p.step != 1; })) {
    return;
  }
  size_t bytes[3] = {}, total = 0;
  for (int k = 0; k < planes.count; ++k) {
    const KernelPlane& w = job.plane[k];
    bytes[k] = static_cast<size_t>(w.width * (w.y->end - w.first_y));
    total += bytes[k];
  }
  uint8_t* to = buffer.get(total);
  KernelPlane* const w = job.plane;
  const bool interleaved = planes.count == 3 && planes.plane[0].step == 3 &&
                           w[1].data == w[0].data + 1 && w[2].data == w[0].data + 2 &&
                           w[1].stride == w[0].stride && w[2].stride == w[0].stride &&
                           w[1].width == w[0].width && w[2].width == w[0].width &&
                           bytes[1] == bytes[0] && bytes[2] == bytes[0];
  if (interleaved && is_apart(1) && is_apart(2)) {
    uint8_t* const parts[3] = {to, to + bytes[0], to + 2 * bytes[0]};
    split_channels(w[0].data, w[0].stride, parts, w[0].width, w[0].width,
                   w[0].y->end - w[0].first_y, isa);
    for (int k = 0; k < 3; ++k) {
      w[k].data = parts[k];
      w[k].stride = w[k].width;
    }
    return;
  }
  for (int k = 0; k < planes.count; ++k) {
    if (is_apart(k)) gather(w[k], planes.plane[k].step, to, w[k].width);
    to += bytes[k];
  }
}

void run(const KernelJob& job, FuseScratch& scratch, Isa isa) {
  const auto bytes = static_cast<size_t>(kernel_floats(job, isa)) * sizeof(float);
  run_kernel(job, reinterpret_cast<float*>(scratch.floats.get(bytes)), isa);
}

KernelColour kernel_colour(Colour colour) {
  switch (colour) {
    case Colour::kGrey:
      return KernelColour::kGrey;
    case Colour::kYCbCr:
      return KernelColour::kYCbCr;
    case Colour::kRgb:
      break;
  }
  return KernelColour::kRgb;
}

}  // namespace

void fuse(const Planes& planes, const View& view, const std::optional<ColourMatrix>& colour,
          const Target& target, FuseScratch& scratch, Isa isa) {
  check_element_type("target", target.dtype);
  if (target.data == nullptr) throw_invalid("target: it has no memory");
  const Scaling scaling = scaling_of(target);
  Plan plan;
  make_plan(planes, view, plan);
  KernelJob job{.colour = kernel_colour(planes.colour),
                .transpose = plan.axes.transpose,
                .planes = planes.count,
                .change = colour ? &*colour : nullptr,
                .data = target.data,
                .dtype = target.dtype,
                .row_stride = target.row_stride,
                .pixel_stride = target.pixel_stride,
                .channel_stride = target.channel_stride};
  std::copy(scaling.scale.begin(), scaling.scale.end(), job.scale);
  std::copy(scaling.offset.begin(), scaling.offset.end(), job.offset);
  for (int k = 0; k < planes.count; ++k) {
    job.plane[k] = window_of(planes.plane[k], *plan.taps[k], isa);
  }
  gather_planes(planes, job, scratch.planes, isa);
  run(job, scratch, isa);
}

void resample(const Plane& plane, const Taps& rows, const Taps& columns, float* out, int64_t stride,
              FuseScratch& scratch, Isa isa) {
  check_taps(plane, columns, rows);
  const PlaneTaps taps{.x = columns, .y = rows};
  const Planes planes{.count = 1, .plane = {plane}};
  KernelJob job{.data = out, .row_stride = stride};
  job.plane[0] = window_of(plane, taps, isa);
  gather_planes(planes, job, scratch.planes, isa);
  run(job, scratch, isa);
}

float mean_grey(const Planes& planes, const Region& region) {
  std::array<double, 3> mean{};
  for (int k = 0; k < planes.count; ++k) {
    const Plane& p = planes.plane[k];
    const int64_t x0 = std::max(region.x0 / p.ratio_x, p.x0) - p.x0;
    const int64_t y0 = std::max(region.y0 / p.ratio_y, p.y0) - p.y0;
    const int64_t x1 = std::min(ceil_div(region.x1, p.ratio_x) - p.x0, p.width);
    const int64_t y1 = std::min(ceil_div(region.y1, p.ratio_y) - p.y0, p.height);
    if (x0 >= x1 || y0 >= y1) throw_invalid("mean grey: the region is not in the planes");
    uint64_t sum = 0;
    for (int64_t y = y0; y < y1; ++y) {
      const uint8_t* row = p.data + y * p.stride;
      uint32_t line = 0;  // 2^24 samples at the most
      for (int64_t x = x0; x < x1; ++x) line += row[x * p.step];
      sum += line;
    }
    mean[k] = static_cast<double>(sum) / static_cast<double>((x1 - x0) * (y1 - y0));
    if (planes.colour != Colour::kRgb) return static_cast<float>(mean[0]);  // grey is Y
  }
  return static_cast<float>(0.299 * mean[0] + 0.587 * mean[1] + 0.114 * mean[2]);
}

}  // namespace stretto::media
