// A mask for each box of a picture, as Mask R-CNN takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/details.h"
#include "stretto/media/operators/geometry.h"
#include "stretto/media/picture.h"

namespace stretto::data {

// Room for the masks of one picture of a batch, entered in the ledger of memory.
class MaskMemory {
 public:
  MaskMemory() = default;
  ~MaskMemory() { release(); }
  MaskMemory(MaskMemory&& other) noexcept;
  MaskMemory& operator=(MaskMemory&&) = delete;

  // At least `bytes`, and not much more than twice as many are kept of before. Invalidates what was
  // got before. Throws std::bad_alloc.
  uint8_t* get(int64_t bytes);
  // What was got last; some address if nothing was.
  const uint8_t* data() const;

 private:
  void release() noexcept;

  uint8_t* data_ = nullptr;
  int64_t bytes_ = 0;
};

// What place_masks() uses again.
struct MaskScratch {
  std::vector<uint8_t> map, placed;
};

// The masks of `boxes`, which are indices of a picture's annotations: one behind the other, each
// frame.height * frame.width bytes, 1 where an outline of the box is seen and 0 elsewhere. The
// picture lies at `inside` of the frame. Which pixels an outline covers is what pycocotools says,
// and they move as those of a label map do (map_mask). Throws FormatError if any annotation has no
// outline, and as paint_label_map() does.
void place_masks(const Details& details, std::span<const Annotation> annotations,
                 std::span<const int64_t> boxes, const media::operators::Geometry& geometry,
                 const media::Region& inside, media::Size frame, MaskScratch& scratch,
                 MaskMemory& masks);

}  // namespace stretto::data
