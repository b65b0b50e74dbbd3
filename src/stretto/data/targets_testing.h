// For the tests of the loader: pictures with boxes and label maps, and what a loader gives of them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/data/loader_testing.h"
#include "stretto/media/decode.h"

namespace stretto::data {

// What a batch has, without its memory.
struct GivenTargets {
  Given given;
  std::vector<float> boxes, areas;
  std::vector<int64_t> labels, starts, ids;
  std::vector<uint8_t> masks, masks_of_boxes;
  bool operator==(const GivenTargets&) const = default;
};

inline GivenTargets targets_of(const Batch& b) {
  GivenTargets g{.given = copy_of(b)};
  if (b.boxes != nullptr) {
    const auto total = static_cast<size_t>(b.box_starts[b.count]);
    g.boxes.assign(b.boxes, b.boxes + 4 * total);
    g.areas.assign(b.box_areas, b.box_areas + total);
    g.labels.assign(b.box_labels, b.box_labels + total);
    g.starts.assign(b.box_starts, b.box_starts + b.count + 1);
    g.ids.assign(b.image_ids, b.image_ids + b.count);
  }
  for (int64_t i = 0; b.masks_of_boxes != nullptr && i < b.count; ++i) {
    const int64_t count = b.box_starts[i + 1] - b.box_starts[i];
    g.masks_of_boxes.insert(g.masks_of_boxes.end(), b.masks_of_boxes[i],
                            b.masks_of_boxes[i] + count * b.height * b.width);
  }
  if (b.masks != nullptr) {
    const auto* at = static_cast<const uint8_t*>(b.masks);
    g.masks.assign(at, at + b.count * b.height * b.width);
  }
  return g;
}

template <typename L>
std::vector<GivenTargets> targets_epoch(L& loader) {
  std::vector<GivenTargets> all;
  while (const auto batch = loader.next()) all.push_back(targets_of(*batch));
  return all;
}

// A COCO file of the test's pictures, each with three boxes that are their own outlines; that of
// class 0 is the smallest and lies on the others. The pictures are turned by EXIF as those of COCO
// never are.
class CocoPictures {
 public:
  explicit CocoPictures(int64_t count) : pictures_(count) {
    std::string images, annotations;
    for (int64_t i = 0; i < count; ++i) {
      const media::PictureInfo info = media::read_info(pictures_.file(i));
      const media::Size seen = media::oriented_size(info.width, info.height, info.orientation);
      images += fmt::format(R"({}{{"id": {}, "file_name": "{}"}})", i > 0 ? ", " : "", 100 + i,
                            TestPictures::name(i));
      for (int k = 0; k < 3; ++k) {
        const double x = 3 + 9 * k, y = 5 + 7 * k;
        const double w = std::min<double>(14 + i % 5, static_cast<double>(seen.width) - x);
        const double h = std::min<double>(12 + k, static_cast<double>(seen.height) - y);
        annotations += fmt::format(
            R"({}{{"image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "segmentation":
               [[{}, {}, {}, {}, {}, {}, {}, {}]]}})",
            annotations.empty() ? "" : ", ", 100 + i, k, x, y, w, h, x, y, x + w, y, x + w, y + h,
            x, y + h);
      }
    }
    path_ = pictures_.folder().write(
        "instances_all.json", fmt::format(R"({{"images": [{}], "annotations": [{}], "categories":
          [{{"id": 0, "name": "a"}}, {{"id": 1, "name": "b"}}, {{"id": 2, "name": "c"}}]}})",
                                          images, annotations));
  }

  const TestPictures& pictures() const { return pictures_; }
  Dataset open() const { return open_dataset(path_); }

 private:
  TestPictures pictures_;
  std::string path_;
};

inline LoaderOptions target_options(std::string_view transforms, Fit fit) {
  LoaderOptions o = small_options();
  o.phases[0].shape = {.height = 48, .width = 40, .batch = 4, .crop = {.min_area = 0.4}};
  o.transforms = media::operators::parse_operators(transforms);
  o.boxes = o.masks = true;
  o.fit = fit;
  return o;
}

}  // namespace stretto::data
