// The memory of batches, which goes round between the loader and whoever holds a batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "stretto/data/instance_masks.h"
#include "stretto/data/loader.h"
#include "stretto/data/pinned.h"

namespace stretto::data {

// A box in a picture of a batch.
struct PlacedBox {
  float x0, y0, x1, y1;
  int64_t label;
};

// The boxes of a batch as Batch gives them.
struct BoxColumns {
  std::vector<float> boxes, areas;
  std::vector<int64_t> labels, starts;
  std::vector<const uint8_t*> masks;  // of each picture
};

// How many bytes a slot has for so many.
int64_t slot_bytes(int64_t wanted);
// Likewise of one for masks of boxes, of which every batch has others: it fits most of them.
int64_t mask_slot_bytes(int64_t wanted);

// Room for a batch: elements, labels, samples, and which are real.
struct Slot {
  // Throws Unsupported if the memory is used up.
  Slot(int64_t bytes, int64_t count, BatchMemory memory = BatchMemory::kOwn);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  int64_t bytes;              // of `data`
  std::byte* data = nullptr;  // whole pages
  int file = -1;              // with kShared: the memfd, whose size is sealed; -1: closed already
  bool mapped = false;        // kShared
  Pinned pinned;
  uint64_t number = 0;  // of all slots of a pool each has another one
  std::vector<int64_t> labels, samples;
  std::unique_ptr<bool[]> real;
  int64_t count;
  // Of each picture, filled by the thread that makes it; empty where no boxes are asked for.
  std::vector<std::vector<PlacedBox>> placed;
  std::vector<int64_t> image_ids;
  std::vector<MaskMemory> masks_of_boxes;  // likewise
  // With kShared, those of all pictures one behind the other, for other processes; nullptr: no box.
  std::shared_ptr<Slot> joined_masks;
  BoxColumns columns;

  // For whoever has sent the memfd, so that batches which are held use up no descriptors.
  void close_file();
  // Puts those of all pictures into `columns`.
  void join_boxes();
};

// Outlives its loader as long as a batch is held.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  // So many free slots are kept, the others are freed. `on_free` is called from any thread, without
  // locks, when one came back after has_room() was false.
  // Slots are numbered from `first` on.
  explicit SlotPool(size_t keep, BatchMemory memory = BatchMemory::kOwn,
                    std::function<void()> on_free = {}, uint64_t first = 1);
  // From now on slots that are taken are pinned as LoaderOptions::pin says.
  void pin(const CudaDriver* driver);

  // Whether a slot is free, or fewer than `keep` and those of grow() are in use. Memory for another
  // one takes a while until it is there, longer than to wait for one that is about to come back.
  bool has_room() const;
  // One more: the caller holds what was thought to come back.
  void grow();
  // A free slot that fits, else a new one. With its last copy it comes back here, from any thread.
  std::shared_ptr<Slot> take(int64_t bytes, int64_t count);
  // Frees what is free, and from now on what comes back. There is always room then.
  void close();
  // Numbers of the slots that are not freed, in order.
  std::vector<uint64_t> numbers() const;
  int64_t pinned_bytes() const { return pinned_bytes_.load(std::memory_order_relaxed); }

 private:
  void give_back(Slot* slot);
  void forget(const Slot& slot);  // with the lock: it is going to be freed

  const uint64_t forks_;
  const BatchMemory memory_;
  const std::function<void()> on_free_;
  mutable std::mutex mutex_;
  size_t keep_, most_;            // `most_`: in use, where has_room() is asked
  mutable bool awaited_ = false;  // has_room() was false since the last one came back
  uint64_t next_number_;
  std::vector<uint64_t> numbers_;
  std::vector<std::unique_ptr<Slot>> free_;
  bool pins_ = false;
  const CudaDriver* driver_ = nullptr;  // nullptr: loaded_cuda()
  std::atomic<int64_t> pinned_bytes_{0};
};

}  // namespace stretto::data
