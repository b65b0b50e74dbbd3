#include "stretto/data/instance_masks.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/memory.h"
#include "stretto/data/outline.h"

namespace stretto::data {
namespace {

// Things that move together, a bit of each pixel for each: what moves a mask moves eight at once.
constexpr size_t kThingsOfAByte = 8;

// Below this, memory is not worth giving back.
constexpr int64_t kMostUnused = int64_t{1} << 20;

using OutlinesOfBoxes = std::vector<std::vector<const Outline*>>;

OutlinesOfBoxes outlines_of_boxes(const Details& details, std::span<const Annotation> annotations) {
  OutlinesOfBoxes outlines(annotations.size());
  for (const Outline& outline : details.outlines) {
    if (outline.box < 0) continue;  // a crowd is no target
    if (outline.box >= std::ssize(annotations)) fail_outline("an outline is of no box");
    outlines[static_cast<size_t>(outline.box)].push_back(&outline);
  }
  for (size_t i = 0; i < annotations.size(); ++i) {
    if (!outlines[i].empty()) continue;
    const Annotation& a = annotations[i];
    fail_outline(
        fmt::format("the box from ({}, {}) to ({}, {}) has none, of which its mask would be made",
                    a.x0, a.y0, a.x1, a.y1));
  }
  return outlines;
}

// Of `bit` of the moved pixels, which are those of `inside`.
void put_bit(std::span<const uint8_t> placed, int bit, const media::Region& inside,
             media::Size frame, uint8_t* mask) {
  std::fill_n(mask, frame.height * frame.width, uint8_t{0});
  const uint8_t* from = placed.data();
  for (int64_t y = inside.y0; y < inside.y1; ++y) {
    uint8_t* const row = mask + y * frame.width + inside.x0;
    for (int64_t x = 0; x < inside.width(); ++x) row[x] = from[x] >> bit & 1;
    from += inside.width();
  }
}

}  // namespace

MaskMemory::MaskMemory(MaskMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

uint8_t* MaskMemory::get(int64_t bytes) {
  if (bytes <= bytes_ && bytes_ <= 2 * bytes + kMostUnused) return data_;
  release();
  if (bytes == 0) return nullptr;
  try {
    take_memory(bytes);
  } catch (const Unsupported&) {
    throw std::bad_alloc();
  }
  const int64_t whole = (bytes + 63) / 64 * 64;
  data_ = static_cast<uint8_t*>(std::aligned_alloc(64, static_cast<size_t>(whole)));
  if (data_ == nullptr) {
    return_memory(bytes);
    throw std::bad_alloc();
  }
  bytes_ = bytes;
  return data_;
}

const uint8_t* MaskMemory::data() const {
  static constexpr uint8_t kNothing = 0;
  return data_ != nullptr ? data_ : &kNothing;
}

void MaskMemory::release() noexcept {
  std::free(std::exchange(data_, nullptr));
  return_memory(std::exchange(bytes_, 0));
}

void place_masks(const Details& details, std::span<const Annotation> annotations,
                 std::span<const int64_t> boxes, const media::operators::Geometry& geometry,
                 const media::Region& inside, media::Size frame, MaskScratch& scratch,
                 MaskMemory& masks) {
  const int64_t width = geometry.stored_width, height = geometry.stored_height;
  const OutlinesOfBoxes outlines = outlines_of_boxes(details, annotations);
  OutlineBudget budget(width, height);
  uint8_t* mask = masks.get(std::ssize(boxes) * frame.height * frame.width);
  scratch.placed.resize(static_cast<size_t>(geometry.width * geometry.height));
  for (; !boxes.empty(); boxes = boxes.subspan(std::min(boxes.size(), kThingsOfAByte))) {
    const auto group = boxes.first(std::min(boxes.size(), kThingsOfAByte));
    scratch.map.assign(static_cast<size_t>(width * height), 0);
    for (size_t k = 0; k < group.size(); ++k) {
      for (const Outline* const outline : outlines[static_cast<size_t>(group[k])]) {
        each_part(*outline, width, height, budget, [&](std::span<const int64_t> changes) {
          budget.pixels -= covered_pixels(changes, width * height);
          if (budget.pixels < 0) fail_outline("they cover the picture too many times");
          change_pixels(changes, width, height, scratch.map,
                        [bit = 1 << k](uint8_t& pixel) { pixel |= static_cast<uint8_t>(bit); });
        });
      }
    }
    media::operators::map_mask(scratch.map, geometry, 0, scratch.placed);
    for (size_t k = 0; k < group.size(); ++k, mask += frame.height * frame.width) {
      put_bit(scratch.placed, static_cast<int>(k), inside, frame, mask);
    }
  }
}

}  // namespace stretto::data
