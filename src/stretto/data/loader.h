// Batches of decoded pictures, ahead of whoever asks for them. Threads take samples one at a time
// in the order of the epoch and write each where it belongs in its batch, so the first batch is
// ready after one batch's work divided by the threads, and nothing is copied together afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/order.h"
#include "stretto/data/remote_stats.h"
#include "stretto/media/crop.h"
#include "stretto/media/operators/operator.h"
#include "stretto/media/weights.h"
#include "stretto/tensor/dtype.h"

namespace stretto::data {

struct CudaDriver;  // pinned.h

enum class PixelLayout : uint8_t { kNchw, kNhwc };
enum class CacheKind : uint8_t {
  kPage,     // the system's, told what will be read next
  kUser,     // encoded bytes in this process: filled once, nothing is put out
  kDecoded,  // planes as decoded (YUV 4:2:0 of a JPEG file is half of RGB), likewise
};
// Where batches lie: on the heap, or in a memfd each, which other processes can map.
enum class BatchMemory : uint8_t { kOwn, kShared };
enum class OnError : uint8_t {
  kRaise,
  // A picture that cannot be read or decoded is counted and replaced by that of the next place of
  // the epoch (after the last: the first) that can, with the crop that it has there. So batches are
  // as many and as large as without, and the same for any number of threads and ranks. When
  // kMostReplaced places in a row have none, the first one's error is thrown. What may pass is
  // always an error: lack of memory or of file descriptors, a shard that is gone, a store that does
  // not answer or lets nobody in, a folder that is gone or empty, as where nothing is mounted.
  kSkip,
};
inline constexpr int64_t kMostReplaced = 100;

// How a part of a picture fills a result of another shape.
enum class Fit : uint8_t {
  kCrop,  // it is cropped
  // It keeps its aspect and is padded on two sides with what normalises to 0. Training shows the
  // whole picture if RandomCrop::min_area is 1, else a random crop; otherwise it is always whole.
  kLetterbox,
};

// What a sample is made into. A phase changes it at the border of two batches.
struct Shape {
  int64_t height = 224, width = 224;
  int64_t batch = 256;  // per rank
  media::RandomCrop crop;
};

// From `epoch` on. Phases are sorted by epoch; the first begins at 0.
struct Phase {
  int64_t epoch = 0;
  Shape shape;
};

// Which part of each batch is this rank's, from a place of an epoch on: `count` samples of those of
// all ranks, from the `first` on.
struct Division {
  int64_t epoch = 0, place = 0;
  int64_t first = 0, count = 1;
};

struct LoaderOptions {
  std::vector<Phase> phases{Phase{}};
  // Training crops at random and mirrors; otherwise the shorter side becomes size * 256 / 224,
  // where size is the larger one of height and width, and the middle is shown.
  bool train = true;
  double flip = 0.5;  // chance, in training
  media::Filter filter = media::Filter::kTriangle;
  DType dtype = DType::kFloat32;  // float32, float16, bfloat16; uint8 is not normalised
  PixelLayout layout = PixelLayout::kNchw;
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};
  // What is done to the picture in its final size before it is normalised, in this order; of
  // parse_operators(). A sample for which no more than one change of brightness, color or hue is
  // drawn keeps its fractions; others are rounded to bytes first, as PIL's pictures are.
  // "mixup" and "cutmix" mix pairs of neighbours of a batch behind all others (operators/mix.h), by
  // seed, epoch and place: then batches have `targets`, and batch is an even number.
  media::operators::Operators transforms;
  int64_t classes = 0;  // of `targets`; 0: as many as the dataset has names of classes

  Fit fit = Fit::kCrop;
  // In training: instead of Shape::crop, a part of the picture that shows one of its boxes to a
  // share that is drawn (media::random_iou_crop).
  bool iou_crop = false;
  bool boxes = false, masks = false;  // what batches have beside the pictures
  // With `boxes`: a mask for each, of the outlines of COCO's things.
  bool masks_of_boxes = false;
  // Boxes are dropped that have fewer pixels in the result, or of which it shows a smaller share.
  double min_box_area = 1, min_visible = 0.1;
  DType mask_dtype = DType::kUInt8;  // or int64
  OrderOptions order;
  int64_t rank = 0, world = 1;
  Last last = Last::kDrop;
  // Shape::batch is that of all ranks together, and Loader::divide() says which part of it is this
  // rank's; until then they have equally many, within one. Not with kPad, "mixup" and "cutmix".
  bool divided = false;
  // 0: the cores that this process may use less one, at least one. Where ranks share a host without
  // being bound to cores of their own, whoever starts them divides.
  int threads = 0;
  int64_t ahead = 2;  // batches that are ready or in the making beside the one handed out
  CacheKind cache = CacheKind::kPage;
  int64_t cache_bytes = 0;  // of kUser and kDecoded; 0: a quarter of the memory
  // Where the system lets it, what goes to kUser is read by io_uring past the page cache
  // (direct_reads.h).
  bool io_uring = true;
  OnError errors = OnError::kRaise;
  int64_t max_pixels = 178'956'970;
  BatchMemory memory = BatchMemory::kOwn;
  // Lets CUDA lock the memory of pictures (pinned.h), from when on this process uses it, so that a
  // GPU copies batches beside what the caller does. Then a batch must be held until its copy is
  // done. With kShared, what SharedLoader maps is locked, and nothing at the other end.
  bool pin = false;
  const CudaDriver* cuda = nullptr;  // nullptr: loaded_cuda(); a test has one of its own
};

// One batch. Its memory belongs to whoever holds it and goes back to the loader with the last copy
// of `hold`; it may outlive the loader.
struct Batch {
  void* data = nullptr;  // aligned to 64 bytes
  DType dtype = DType::kFloat32;
  PixelLayout layout = PixelLayout::kNchw;
  int64_t count = 0, height = 0, width = 0;  // three channels
  const int64_t* labels = nullptr;           // [count], -1 where there is none
  const bool* real = nullptr;                // [count], false where kPad filled up
  const int64_t* samples = nullptr;          // [count], indices in the dataset; -1 for padding
  // With "mixup" or "cutmix": shares of the classes, [count, classes]. Zeros without a label.
  const float* targets = nullptr;
  int64_t classes = 0;
  // With LoaderOptions::boxes, in pixels of the pictures. Those of picture i are box_starts[i] to
  // box_starts[i + 1] - 1; areas are of the boxes. image_ids: as in the source, else the sample's
  // index, which of joined sources it always is; -1 for padding.
  const float* boxes = nullptr;  // x0, y0, x1, y1 of each
  const int64_t* box_labels = nullptr;
  const float* box_areas = nullptr;
  const int64_t* box_starts = nullptr;  // [count + 1]
  const int64_t* image_ids = nullptr;   // [count]
  // With LoaderOptions::masks_of_boxes, for each picture its masks [boxes, height, width], one
  // behind the other: 1 where an outline of the box is seen, 0 elsewhere (instance_masks.h).
  const uint8_t* const* masks_of_boxes = nullptr;  // [count]
  // With LoaderOptions::masks: [count, height, width]. 255 where a picture shows nothing, and in
  // crowds (label_map.h).
  const void* masks = nullptr;
  DType mask_dtype = DType::kUInt8;
  int64_t epoch = 0, number = 0;  // which batch of which epoch
  std::shared_ptr<void> hold;
};

// Since the loader was made. Seconds are of all threads together unless it says otherwise.
struct Stats {
  int64_t batches = 0;               // that next() gave
  int64_t samples = 0, skipped = 0;  // that threads made, also for batches that were dropped
  int64_t read_bytes = 0;
  double read_seconds = 0, decode_seconds = 0, transform_seconds = 0;
  double idle_seconds = 0;  // all batches ahead were in the making or ready
  // Of the thread that calls next(): waiting there for a batch, of that for the first one after the
  // start or a jump, and between next() returning and being called again. The device is slower than
  // the loader where `waited` without `first_wait` is nearly nothing of `asked`.
  double waited_seconds = 0, first_wait_seconds = 0, asked_seconds = 0;
  int64_t ready = 0;  // batches that were ready when next() was called
  int64_t cache_hits = 0, cached_samples = 0;
  int64_t cache_bytes = 0;   // that they and the cache's tables use
  bool io_uring = false;     // what goes to a cache of this process is read by it
  int64_t ring_reads = 0;    // parts of samples that were: the others were in memory, or large
  int64_t pinned_bytes = 0;  // of batches, by CUDA
  int threads = 0;
  std::vector<std::string> skipped_names;  // the first hundred that differ
  std::optional<RemoteStats> remote;       // of a dataset behind URLs
  std::vector<int64_t> part_samples;       // that next() gave of each of Dataset::parts()
  // Of a team's loaders: what the caller of each waited, this one included. All else but `samples`,
  // bytes, the cache and what threads did is of this loader alone.
  struct Rank {
    int64_t rank = 0, batches = 0;
    double waited_seconds = 0, first_wait_seconds = 0, asked_seconds = 0;
  };
  std::vector<Rank> ranks;
};

// What the whole job waits for: "device" where next() waited for less than a hundredth of the time,
// else what the threads spend most of their time on: "reading", "decoding" or "transforms". Empty
// before the second batch.
std::string_view verdict(const Stats& stats);

// Threads, caches and the dataset for the loaders of several ranks in one process: every picture is
// kept once, and threads work for the rank that waits. It begins without threads; each loader
// brings its own, and the last one ends it.
struct LoaderTeam;
// Throws as Loader does. `rank` and `threads` of the options say nothing.
std::shared_ptr<LoaderTeam> make_team(Dataset dataset, LoaderOptions options);

// next(), set_epoch(), position() and load() are called by one thread at a time. In a child of
// fork(), which has no copy of the threads, every call throws Unsupported; batches stay readable.
//
// Threads run as SCHED_BATCH and with a nice value of kNice above the caller's: when the job's own
// threads wake up, they get the core at once. The loader has its share of a busy machine still, and
// every core that is free.
class Loader {
 public:
  static constexpr int kNice = 5;

  // Throws InvalidArgument for options that make no sense, naming them and their values. Starts its
  // threads here and ends them in the destructor.
  Loader(Dataset dataset, LoaderOptions options);
  // One rank of a team, which gives the same batches as if it were alone. Throws Unsupported when
  // the team has ended.
  Loader(std::shared_ptr<LoaderTeam> team, int64_t rank, int threads);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch of the epoch, in order, or nothing at its end; the call after that begins the
  // next epoch. Throws what reading or decoding threw, naming the sample (kRaise; of several that
  // of the first place); the loader goes on behind that batch. Throws Unsupported where there is no
  // memory for the batch, which comes at the next call if there is some then. Calls
  // check_interrupt() while it waits (base/interrupt.h), after whose error it can be called again.
  std::optional<Batch> next();

  // Begins this epoch at its first batch. Costs nothing if it is the one that comes next.
  void set_epoch(int64_t epoch);
  int64_t epoch() const;
  int64_t batches(int64_t epoch) const;
  // The samples of an epoch that this rank is given, in order; -1 for padding.
  std::vector<int64_t> indices(int64_t epoch) const;

  // With LoaderOptions::divided, in order of their places; each holds until the next one. Batches
  // in the making that are cut otherwise are made again: to avoid it, begin options().ahead
  // batches behind position(). Throws InvalidArgument for parts that a batch does not have.
  void divide(std::vector<Division> divisions);

  // Behind the last batch that next() gave.
  Position position() const;
  // Throws InvalidArgument if the seed or the order is another one or the epoch has no such place.
  // Batches in the making are dropped.
  void load(const Position& position);

  Stats stats() const;
  const Dataset& dataset() const;
  const LoaderOptions& options() const;

 private:
  friend struct LoaderTeam;
  friend class Session;  // share_serve.cc
  struct Impl;           // loader_impl.h
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::data
