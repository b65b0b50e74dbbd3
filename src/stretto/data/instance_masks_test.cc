// A mask for each box: by itself, and as the loader gives them.
#include "stretto/data/instance_masks.h"

#include <algorithm>
#include <map>

#include "stretto/base/error.h"
#include "stretto/data/label_map.h"
#include "stretto/data/pack.h"
#include "stretto/data/targets_testing.h"

namespace stretto::data {
namespace {

// Of a picture that is shown as it is.
media::operators::Geometry as_it_is(int64_t width, int64_t height) {
  return {.stored_width = width,
          .stored_height = height,
          .crop = {0, 0, static_cast<double>(width), static_cast<double>(height)},
          .width = width,
          .height = height};
}

std::vector<double> rectangle(double x0, double y0, double x1, double y1) {
  return {x0, y0, x1, y0, x1, y1, x0, y1};
}

struct Placed {
  MaskMemory memory;
  std::vector<std::vector<uint8_t>> masks;
};

// In a frame with a row above and a column on the left.
Placed place(const Details& details, std::span<const Annotation> annotations,
             const std::vector<int64_t>& boxes, int64_t width, int64_t height) {
  Placed placed;
  MaskScratch scratch;
  const media::Size frame{width + 1, height + 1};
  place_masks(details, annotations, boxes, as_it_is(width, height), {1, 1, width + 1, height + 1},
              frame, scratch, placed.memory);
  const int64_t pixels = frame.width * frame.height;
  for (size_t k = 0; k < boxes.size(); ++k) {
    const uint8_t* const mask = placed.memory.data() + static_cast<int64_t>(k) * pixels;
    for (int64_t at = 0; at < pixels; ++at) {
      if (at < frame.width || at % frame.width == 0) {
        EXPECT_EQ(mask[at], 0);
      }
    }
    std::vector<uint8_t>& inside = placed.masks.emplace_back();
    for (int64_t y = 1; y <= height; ++y) {
      inside.insert(inside.end(), mask + y * frame.width + 1, mask + (y + 1) * frame.width);
    }
  }
  return placed;
}

// More than eight, which overlap: a byte's bits are used again, and none hides another one.
TEST(MasksOfBoxes, EachHasThePixelsOfItsOutlinesAlone) {
  constexpr int64_t kWidth = 23, kHeight = 17;
  std::vector<Annotation> annotations(19);
  Details details;
  for (int64_t i = 0; i < 19; ++i) {
    const auto at = static_cast<double>(i);
    details.outlines.push_back(
        {.box = i, .polygons = {rectangle(0, 0, at + 1, 5), rectangle(2, 3, 4, 10 + at / 3)}});
  }
  details.outlines.push_back(
      {.box = -1, .runs = {0, kWidth * kHeight}, .width = kWidth, .height = kHeight});
  std::reverse(details.outlines.begin(), details.outlines.end());
  const std::vector<int64_t> shown{0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
  const Placed placed = place(details, annotations, shown, kWidth, kHeight);
  for (size_t k = 0; k < shown.size(); ++k) {
    SCOPED_TRACE(shown[k]);
    Details alone;
    for (const Outline& outline : details.outlines) {
      if (outline.box == shown[k])
        alone.outlines.push_back({.box = 0, .polygons = outline.polygons});
    }
    std::vector<uint8_t> want;
    const Annotation one{.label = 0};
    paint_label_map(alone, {&one, 1}, kWidth, kHeight, 1 << 20, want);
    EXPECT_EQ(placed.masks[k], want);
  }
}

TEST(MasksOfBoxes, WhatIsWrongIsNamed) {
  const Annotation boxes[] = {{.x0 = 1, .y0 = 2, .x1 = 3.5, .y1 = 4}, {}};
  const auto error = [&](std::vector<Outline> outlines, size_t count = 1) {
    return error_of<FormatError>([&] {
      place({.outlines = std::move(outlines)}, std::span(boxes).first(count), {0}, 8, 4);
    });
  };
  const Outline good{.box = 0, .polygons = {rectangle(0, 0, 3, 3)}};
  EXPECT_TRUE(says(error({}), "the box from (1, 2) to (3.5, 4) has none"));
  // Whether it is shown or not: otherwise an error would come and go with the crop.
  EXPECT_TRUE(says(error({good}, 2), "has none"));
  EXPECT_TRUE(says(error({good, {.box = 1, .polygons = good.polygons}}), "is of no box"));
  EXPECT_TRUE(says(error({{.box = 0, .runs = {4, 4}, .width = 4, .height = 8}}), "of 4x8 pixels"));
  const Outline everything{.box = 0, .runs = {0, 32}, .width = 8, .height = 4};
  EXPECT_NO_THROW(
      place({.outlines = std::vector(256, everything)}, std::span(boxes).first(1), {0}, 8, 4));
  EXPECT_TRUE(says(error(std::vector(257, everything)), "too many times"));
  Outline walked{.box = 0};
  for (int i = 0; i < 300; ++i) {
    std::vector<double> zigzag;
    for (int k = 0; k < 50; ++k) zigzag.insert(zigzag.end(), {k % 2 * 8.0, k * 0.1});
    walked.polygons.push_back(std::move(zigzag));
  }
  EXPECT_TRUE(says(error({walked}), "too long"));
}

TEST(MasksOfBoxes, MemoryIsUsedAgainAndNotKeptForOneLargePicture) {
  MaskMemory memory;
  EXPECT_NE(memory.data(), nullptr);
  const uint8_t* const first = memory.get(64 << 20);
  EXPECT_EQ(memory.get(40 << 20), first);
  const uint8_t* const less = memory.get(1 << 20);
  EXPECT_EQ(memory.get(1 << 19), less);
  EXPECT_THROW(memory.get(INT64_MAX / 2), std::bad_alloc);
  EXPECT_NO_THROW(memory.get(100));
}

LoaderOptions mask_options(std::string_view transforms, Fit fit) {
  LoaderOptions o = target_options(transforms, fit);
  o.masks_of_boxes = true;
  return o;
}

// Painted as label maps are, smaller ones on larger ones, they are the label map: it moves with
// them, and crops, mirrors and turns are those of other tests.
TEST(LoaderTargets, MasksOfBoxesMakeTheLabelMap) {
  const CocoPictures coco(11);
  int64_t shown = 0;
  for (const Fit fit : {Fit::kCrop, Fit::kLetterbox}) {
    for (const bool train : {true, false}) {
      LoaderOptions o = mask_options("rotate(30), translate_x(0.2)", fit);
      o.train = train;
      o.min_visible = o.min_box_area = 0;
      o.last = Last::kPad;
      Loader loader(coco.open(), o);
      while (const auto batch = loader.next()) {
        const int64_t pixels = batch->height * batch->width;
        for (int64_t i = 0; i < batch->count; ++i) {
          const uint8_t* const map = static_cast<const uint8_t*>(batch->masks) + i * pixels;
          std::map<int64_t, const uint8_t*, std::greater<>> by_size;  // class 0 is the smallest
          for (int64_t b = batch->box_starts[i]; b < batch->box_starts[i + 1]; ++b) {
            by_size[batch->box_labels[b]] =
                batch->masks_of_boxes[i] + (b - batch->box_starts[i]) * pixels;
          }
          std::vector<uint8_t> painted(static_cast<size_t>(pixels));
          for (const auto& [label, mask] : by_size) {
            for (int64_t at = 0; at < pixels; ++at) {
              ASSERT_LE(mask[at], 1);
              if (mask[at] != 0) painted[static_cast<size_t>(at)] = static_cast<uint8_t>(label + 1);
            }
          }
          for (int64_t at = 0; at < pixels; ++at) {
            const int want = map[at] == kIgnore ? 0 : map[at];
            ASSERT_EQ(painted[static_cast<size_t>(at)], want) << at;
            shown += want != 0;
          }
        }
      }
    }
  }
  EXPECT_GT(shown, 1000);
}

TEST(LoaderTargets, MasksOfBoxesDependOnNoThreadCacheSourceOrResume) {
  const CocoPictures coco(13);
  TestFolder out;
  pack(coco.open(), out.path("pack"));
  LoaderOptions o = mask_options("rand_augment(2, 9), erase", Fit::kCrop);
  o.masks = false;
  o.threads = 1;
  Loader one(coco.open(), o);
  std::vector<std::vector<GivenTargets>> epochs{targets_epoch(one), targets_epoch(one)};
  EXPECT_GT(std::ranges::count(epochs[0][0].masks_of_boxes, 1), 100);
  o.threads = 3;
  o.cache = CacheKind::kDecoded;
  Loader packed(open_dataset(out.path("pack")), o);
  for (const auto& want : epochs) EXPECT_EQ(targets_epoch(packed), want);
  packed.load({.seed = o.order.seed, .epoch = 0, .place = 8});
  EXPECT_EQ(targets_epoch(packed),
            std::vector<GivenTargets>(epochs[0].begin() + 2, epochs[0].end()));
  // A batch that is kept is not written over, and outlives its loader.
  std::optional<Batch> kept;
  {
    Loader loader(coco.open(), o);
    kept = loader.next();
    for (int i = 0; i < 6; ++i) loader.next();
  }
  EXPECT_EQ(targets_of(*kept), epochs[0][0]);
}

TEST(LoaderTargets, MasksOfBoxesNeedOutlinesAndBoxes) {
  const CocoPictures coco(4);
  const TestPictures pictures(4);
  LoaderOptions o = mask_options("", Fit::kCrop);
  o.masks = false;
  o.phases[0].shape.batch = 2;
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { Loader loader(pictures.as_folder(), o); }),
                   "has no boxes"));
  LoaderOptions other = o;
  other.boxes = false;
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { Loader loader(coco.open(), other); }),
                   "masks of boxes without boxes"));
}

}  // namespace
}  // namespace stretto::data
