// The memory of batches, which goes round between the loader and whoever holds a batch.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

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
};

// Room for a batch: elements, labels, samples, and which are real.
struct Slot {
  Slot(int64_t bytes, int64_t count);  // throws Unsupported if the memory is used up
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  int64_t bytes;              // of `data`
  std::byte* data = nullptr;  // aligned to 64 bytes
  std::vector<int64_t> labels, samples;
  std::unique_ptr<bool[]> real;
  int64_t count;
  // Of each picture, filled by the thread that makes it; empty where no boxes are asked for.
  std::vector<std::vector<PlacedBox>> placed;
  std::vector<int64_t> image_ids;
  BoxColumns columns;

  // Puts those of all pictures into `columns`.
  void join_boxes();
};

// Outlives its loader as long as a batch is held.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  explicit SlotPool(size_t keep);  // so many free slots are kept, the others are freed

  // A free slot that fits, else a new one. With its last copy it comes back here, from any thread.
  std::shared_ptr<Slot> take(int64_t bytes, int64_t count);
  // Frees what is free, and from now on what comes back.
  void close();

 private:
  void give_back(Slot* slot);

  const uint64_t forks_;
  std::mutex mutex_;
  size_t keep_;
  std::vector<std::unique_ptr<Slot>> free_;
};

}  // namespace stretto::data
