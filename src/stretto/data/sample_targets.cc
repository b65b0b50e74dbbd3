// What a sample has beside its pixels: boxes, masks of them, and a label map.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/data/label_map.h"
#include "stretto/data/sample_work.h"

namespace stretto::data {
namespace {

// A label map to its place in one of `size`, and kIgnore around it.
template <typename T>
void put_mask(std::span<const uint8_t> mask, const media::Region& inside, media::Size size,
              T* out) {
  const uint8_t* from = mask.data();
  for (int64_t y = 0; y < size.height; ++y, out += size.width) {
    if (y < inside.y0 || y >= inside.y1) {
      std::fill_n(out, size.width, T{kIgnore});
      continue;
    }
    std::fill_n(out, inside.x0, T{kIgnore});
    std::copy_n(from, inside.width(), out + inside.x0);
    std::fill(out + inside.x1, out + size.width, T{kIgnore});
    from += inside.width();
  }
}

}  // namespace

void SampleWork::place_targets(int64_t sample, const Details& details, std::span<const uint8_t> map,
                               const SampleOut& out) {
  const double begin = now_s();
  const std::span<const Annotation> annotations = source_.dataset.annotations(sample);
  if (out.boxes != nullptr) {
    // Numbers of several sources would meet.
    *out.image_id = source_.dataset.kind() == "concat" ? sample : details.image_id.value_or(sample);
    place_boxes(annotations, *out.boxes);
  }
  if (out.masks_of_boxes != nullptr) {
    place_masks(details, annotations, shown_, geometry_, inside_, frame_, masks_,
                *out.masks_of_boxes);
    if (masks_.map.size() > kMostKept) masks_ = {};
  }
  if (out.mask != nullptr) {
    if (map.empty()) {
      paint_map(sample, details, annotations);
      map = map_;
    }
    place_label_map(map, out.mask);
    if (map_.size() > kMostKept) map_ = {};
  }
  Counters::add(counters_.transform_seconds, now_s() - begin);
}

void SampleWork::place_boxes(std::span<const Annotation> annotations,
                             std::vector<PlacedBox>& placed) {
  placed.clear();
  shown_.clear();
  const auto& [x0, y0, x1, y1] = geometry_.crop;
  // As with torchvision's RandomIoUCrop, a thing of which a part shows the edge alone is no
  // target.
  const bool by_middle = options_.iou_crop && options_.train &&
                         (x1 - x0 < static_cast<double>(geometry_.stored_width) ||
                          y1 - y0 < static_cast<double>(geometry_.stored_height));
  const media::operators::BoxLimits limits{.min_area = options_.min_box_area,
                                           .min_visible = options_.min_visible};
  for (int64_t i = 0; i < std::ssize(annotations); ++i) {
    const Annotation& a = annotations[static_cast<size_t>(i)];
    const double x = (static_cast<double>(a.x0) + static_cast<double>(a.x1)) / 2;
    const double y = (static_cast<double>(a.y0) + static_cast<double>(a.y1)) / 2;
    if (by_middle && !(x0 < x && x < x1 && y0 < y && y < y1)) continue;
    const auto box = media::operators::map_box({.x0 = static_cast<double>(a.x0),
                                                .y0 = static_cast<double>(a.y0),
                                                .x1 = static_cast<double>(a.x1),
                                                .y1 = static_cast<double>(a.y1)},
                                               geometry_, limits);
    if (!box) continue;
    const auto left = static_cast<double>(inside_.x0), top = static_cast<double>(inside_.y0);
    shown_.push_back(i);
    placed.push_back({static_cast<float>(left + box->x0), static_cast<float>(top + box->y0),
                      static_cast<float>(left + box->x1), static_cast<float>(top + box->y1),
                      a.label});
  }
}

// To map_, and to the cache of decoded pictures.
void SampleWork::paint_map(int64_t sample, const Details& details,
                           std::span<const Annotation> annotations) {
  const bool known = details.image_id.has_value() && annotations.empty();
  if (details.mask.empty() && details.outlines.empty() && !known) {
    throw FormatError("label map", -1, "there is none, and no outlines for one");
  }
  paint_label_map(details, annotations, geometry_.stored_width, geometry_.stored_height,
                  options_.max_pixels, map_);
  if (source_.decoded != nullptr) source_.decoded->put_map(sample, map_);
}

void SampleWork::place_label_map(std::span<const uint8_t> map, void* out) {
  if (std::ssize(map) != geometry_.stored_width * geometry_.stored_height) {
    throw FormatError("label map", -1,
                      "the picture has another size than when its map was read first: it was "
                      "changed");
  }
  mask_.resize(static_cast<size_t>(geometry_.width * geometry_.height));
  media::operators::map_mask(map, geometry_, kIgnore, mask_);
  if (options_.mask_dtype == DType::kUInt8) {
    put_mask(mask_, inside_, frame_, static_cast<uint8_t*>(out));
  } else {
    put_mask(mask_, inside_, frame_, static_cast<int64_t*>(out));
  }
}

}  // namespace stretto::data
