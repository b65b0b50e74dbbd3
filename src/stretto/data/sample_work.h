// One sample from its bytes to its place in a batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/data/caches.h"
#include "stretto/data/details.h"
#include "stretto/data/instance_masks.h"
#include "stretto/data/loader.h"
#include "stretto/data/reader.h"
#include "stretto/data/slots.h"
#include "stretto/media/fuse.h"
#include "stretto/media/operators/geometry.h"

namespace stretto::data {

// What one thread counts, and others read meanwhile. Only its own thread writes.
struct alignas(64) Counters {
  std::atomic<int64_t> samples{0}, read_bytes{0}, cache_hits{0};
  std::atomic<double> read_seconds{0}, decode_seconds{0}, transform_seconds{0}, idle_seconds{0};

  template <typename T>
  static void add(std::atomic<T>& counter, T value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
};

// What the threads of a loader share: where samples come from.
struct Source {
  Source(Dataset dataset, const LoaderOptions& options);

  const Dataset dataset;
  Reader reader;
  std::unique_ptr<EncodedCache> encoded;  // nullptr: none
  std::unique_ptr<DecodedCache> decoded;
  // What a cache lacks, so that it is read ahead.
  Reader::Soon lacks(int64_t sample, bool details) const;
};

// Whose random numbers a sample gets: those of the sample or, where an epoch can have it several
// times, those of its place.
struct Draws {
  uint64_t seed = 0, number = 0;
  uint32_t epoch = 0;
};

// Which part of a picture is shown, and where in the result; the rest of it is padding.
struct Framed {
  media::View view;
  int64_t left = 0, top = 0;
};
// Of a picture of this stored size, as training or validation does it. `boxes` are for iou_crop.
Framed frame_of(const LoaderOptions& options, const Shape& shape, const Draws& draws, int64_t width,
                int64_t height, int orientation, std::span<const Annotation> boxes = {});

// How many elements lie between two samples of a batch.
inline int64_t sample_elements(const Shape& shape) { return 3 * shape.height * shape.width; }

// Where the parts of a batch begin in its slot, in bytes.
struct SlotLayout {
  int64_t picture = 0, mask = 0;   // bytes of one sample
  int64_t masks = 0, targets = 0;  // where they begin
  int64_t classes = 0;
  int64_t bytes = 0;  // of all
};
// `count`: samples of the batch.
SlotLayout slot_layout(const LoaderOptions& options, const Shape& shape, int64_t classes,
                       int64_t count);

// Where the parts of a sample go; nullptr: they are not asked for.
struct SampleOut {
  void* pixels = nullptr;
  void* mask = nullptr;
  std::vector<PlacedBox>* boxes = nullptr;
  int64_t* image_id = nullptr;
  MaskMemory* masks_of_boxes = nullptr;  // with `boxes` only
};

// Buffers keep their memory for the next sample, but not that of one huge picture.
constexpr size_t kMostKept = size_t{64} << 20;

// Unlike the other reasons for which a sample is Unsupported, this one is not the sample's fault.
struct OutOfMemory : Unsupported {
  using Unsupported::Unsupported;
};

// The memory and counters of one thread.
class SampleWork {
 public:
  SampleWork(Source& source, const LoaderOptions& options, Counters& counters);

  // Writes sample_elements() elements of options.dtype, and what else is asked for. Throws
  // FormatError, Unsupported or OutOfMemory that names the sample.
  void run(int64_t sample, const Shape& shape, const Draws& draws, const SampleOut& out);

  void count_sample() { Counters::add(counters_.samples, int64_t{1}); }

 private:
  void make(int64_t sample, const Shape& shape, const Draws& draws, void* out);
  void decode_and_fuse(int64_t sample, const Encoded& encoded, const Shape& shape,
                       const Draws& draws, void* out);
  const media::Planes& decode(int64_t sample, const Encoded& encoded, const media::View& view,
                              const media::PictureInfo& info);
  Framed frame(int64_t sample, const Shape& shape, const Draws& draws, int64_t width,
               int64_t height, int orientation) const;
  void fuse(const media::Planes& planes, const Framed& framed, const Shape& shape,
            const Draws& draws, void* out);
  media::operators::Steps transform(const media::Planes& planes, const media::View& view,
                                    const Draws& draws, const media::Target& target);
  // What belongs to the sample, of the cache or its file.
  media::Bytes read_details(int64_t sample, bool id_alone);
  // Errors of `work` get the sample's name.
  template <typename F>
  void named(int64_t sample, const F& work) const;
  // sample_targets.cc: of the sample that fuse() made last.
  // `map`: its label map, where a cache has it.
  void place_targets(int64_t sample, const Details& details, std::span<const uint8_t> map,
                     const SampleOut& out);
  void place_boxes(std::span<const Annotation> annotations, std::vector<PlacedBox>& placed);
  void paint_map(int64_t sample, const Details& details, std::span<const Annotation> annotations);
  void place_label_map(std::span<const uint8_t> map, void* out);

  Source& source_;
  const LoaderOptions& options_;
  Counters& counters_;
  media::Buffer bytes_, planes_memory_, part_;
  media::Planes planes_;
  media::FuseScratch scratch_;
  media::Buffer picture_;  // bytes that operators change
  media::operators::Work work_;
  // Of what fuse() made, in the picture as it is to be seen; where it lies in its frame.
  media::operators::Geometry geometry_;
  media::Region inside_;
  media::Size frame_;
  media::Buffer details_;
  std::vector<uint8_t> map_, mask_;
  std::vector<int64_t> shown_;  // which annotations the boxes of that sample are of
  MaskScratch masks_;
  const Isa isa_ = usable_isa();
};

}  // namespace stretto::data
