#include <cmath>

#include "stretto/base/error.h"
#include "stretto/data/details.h"
#include "stretto/data/loader_impl.h"
#include "stretto/media/elements.h"

namespace stretto::data {
namespace {

constexpr int64_t kLargestSide = 1 << 14, kLargestBatch = 1 << 20, kLargestWorld = 1 << 20;
constexpr int kMostThreads = 1024;
constexpr int64_t kMostAhead = 1024, kMostClasses = 1 << 24;

void check_shape(const LoaderOptions& o, const Phase& phase, int64_t samples) {
  const Shape& s = phase.shape;
  if (s.height < 1 || s.width < 1 || s.height > kLargestSide || s.width > kLargestSide) {
    throw_invalid("loader: pictures of {}x{}: expected sides of 1 to {}", s.width, s.height,
                  kLargestSide);
  }
  if (s.batch < 1 || s.batch > kLargestBatch) {
    throw_invalid("loader: batch is {}, expected 1 to {}", s.batch, kLargestBatch);
  }
  if (s.batch % 2 != 0 && media::operators::mixing_of(o.transforms).any()) {
    throw_invalid(
        "loader: batch is {}: expected an even number, because mixup and cutmix mix pairs of a "
        "batch",
        s.batch);
  }
  media::SampleRandom random(0, 0, 0, media::Draw::kCrop);
  media::random_crop(s.crop, 8, 8, random);  // throws for ranges that are none
  const Order order(o.order, samples, phase.epoch);
  const Cut cut{.batch = s.batch,
                .rank = o.rank,
                .world = o.world,
                .last = o.last,
                .all = o.divided ? s.batch : 0};
  if (batches_of(order.size(), cut) == 0) {
    throw_invalid(
        "loader: an epoch has {} samples, and {} ranks with batches of {} take {}: "
        "expected a smaller batch, or last=\"pad\" or \"wrap\"",
        order.size(), o.world, s.batch, cut.global());
  }
}

void check_pixels(const LoaderOptions& o) {
  media::check_element_type("loader: dtype", o.dtype);
  for (size_t c = 0; c < 3; ++c) {
    if (!std::isfinite(o.mean[c]) || !std::isfinite(o.std[c]) || !(o.std[c] > 0)) {
      throw_invalid("loader: channel {} has mean {} and std {}: expected numbers, std above 0", c,
                    o.mean[c], o.std[c]);
    }
  }
  if (!(o.flip >= 0 && o.flip <= 1)) {
    throw_invalid("loader: flip is {}, expected a chance of 0 to 1", o.flip);
  }
  if (o.max_pixels < 1) throw_invalid("loader: max_pixels is {}, expected 1 or more", o.max_pixels);
}

void check_targets(const LoaderOptions& o) {
  if ((o.boxes || o.masks) && media::operators::mixing_of(o.transforms).any()) {
    throw_invalid("loader: mixup and cutmix mix labels of pictures, not boxes or masks");
  }
  if (o.masks_of_boxes && !o.boxes) throw_invalid("loader: masks of boxes without boxes");
  if (o.mask_dtype != DType::kUInt8 && o.mask_dtype != DType::kInt64) {
    throw_invalid("loader: mask_dtype is {}, expected uint8 or int64", dtype_name(o.mask_dtype));
  }
  if (!(o.min_visible >= 0 && o.min_visible <= 1)) {
    throw_invalid("loader: min_visible is {}, expected a share of 0 to 1", o.min_visible);
  }
  if (!(o.min_box_area >= 0)) {
    throw_invalid("loader: min_box_area is {}, expected at least 0", o.min_box_area);
  }
  if (o.classes < 0 || o.classes > kMostClasses) {
    throw_invalid("loader: classes is {}, expected 1 to {}, or 0 for those of the dataset",
                  o.classes, kMostClasses);
  }
}

// Whether a sample has what a label map is made of, as far as the table knows.
bool may_have_map(const Dataset& dataset, int64_t index) {
  const auto known = dataset.details(index);
  if (known.empty()) {
    return dataset.sample(index).details_bytes > 0 || !dataset.mask_path(index).empty();
  }
  // Without things it is all background.
  return has_outlines_or_mask(known) || dataset.annotations(index).empty();
}

}  // namespace

int64_t target_classes(const LoaderOptions& o, const Dataset& dataset) {
  if (!media::operators::mixing_of(o.transforms).any()) return 0;
  return o.classes > 0 ? o.classes : std::ssize(dataset.class_names());
}

void check_dataset(const LoaderOptions& o, const Dataset& dataset) {
  if ((o.boxes || o.iou_crop) && !dataset.has_annotations()) {
    throw_invalid(
        "loader: {} has no boxes: expected COCO's instances_*.json, a .jsonl list with \"boxes\", "
        "or a pack of them",
        dataset.source());
  }
  if (o.masks_of_boxes && !dataset.has_details()) {
    throw_invalid(
        "loader: {} has no outlines: expected COCO's instances_*.json with segmentations, or a "
        "pack of it",
        dataset.source());
  }
  if (o.masks && !dataset.has_details()) {
    throw_invalid(
        "loader: {} has no label maps: expected a folder with the folders images and masks, COCO's "
        "instances_*.json with segmentations, or a pack of them",
        dataset.source());
  }
  const bool maps = o.masks || o.masks_of_boxes;
  for (int64_t i = 0; maps && o.errors == OnError::kRaise && i < dataset.size(); ++i) {
    if (may_have_map(dataset, i)) continue;
    throw_invalid("loader: sample {} of {} has no {}outlines for one", dataset.name(i),
                  dataset.source(), o.masks ? "label map, and no " : "mask of a box, and no ");
  }
  if (!media::operators::mixing_of(o.transforms).any()) return;
  const int64_t classes = target_classes(o, dataset);
  if (classes == 0) {
    throw_invalid(
        "loader: mixup and cutmix: {} has no names of classes: expected `classes`, how "
        "many there are",
        dataset.source());
  }
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (const int64_t label = dataset.sample(i).label; label >= classes) {
      throw_invalid("loader: mixup and cutmix: sample {} has label {}, expected labels below {}",
                    dataset.name(i), label, classes);
    }
  }
}

void check_options(const LoaderOptions& o, int64_t samples) {
  check_order(o.order, samples);
  check_pixels(o);
  check_targets(o);
  if (o.world < 1 || o.world > kLargestWorld || o.rank < 0 || o.rank >= o.world) {
    throw_invalid("loader: rank {} of {}: expected a rank below the number of ranks", o.rank,
                  o.world);
  }
  if (o.divided && (o.last == Last::kPad || media::operators::mixing_of(o.transforms).any())) {
    throw_invalid(
        "loader: batches that ranks divide by shares: expected last=\"drop\" or \"wrap\", and "
        "neither mixup nor cutmix, which mix pairs within a rank's batch");
  }
  if (o.threads < 0 || o.threads > kMostThreads) {
    throw_invalid("loader: {} threads, expected 1 to {}, or 0 for one a core", o.threads,
                  kMostThreads);
  }
  if (o.ahead < 1 || o.ahead > kMostAhead) {
    throw_invalid("loader: {} batches ahead, expected 1 to {}", o.ahead, kMostAhead);
  }
  if (o.cache_bytes < 0) throw_invalid("loader: a cache of {} bytes", o.cache_bytes);
  if (o.phases.empty() || o.phases.front().epoch != 0) {
    throw_invalid("loader: the first phase begins at epoch {}, expected 0",
                  o.phases.empty() ? -1 : o.phases.front().epoch);
  }
  for (size_t i = 0; i < o.phases.size(); ++i) {
    if (i > 0 && o.phases[i].epoch <= o.phases[i - 1].epoch) {
      throw_invalid("loader: a phase from epoch {} behind one from epoch {}: expected later ones",
                    o.phases[i].epoch, o.phases[i - 1].epoch);
    }
    check_shape(o, o.phases[i], samples);
  }
}

}  // namespace stretto::data
