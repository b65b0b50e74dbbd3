// The two caches of a loader: samples as they lie in their files, and pictures as decoded.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "stretto/data/fill_once.h"
#include "stretto/data/reader.h"
#include "stretto/media/picture.h"

namespace stretto::data {

// Bytes of samples, and of what belongs to them. What find() gives stays valid as long as the
// cache. Safe for all threads.
class EncodedCache {
 public:
  // `with_details`: there is room in the tables for those too.
  EncodedCache(int64_t samples, int64_t budget, bool with_details = false)
      : samples_(samples), store_(with_details ? 2 * samples : samples, budget) {}
  // Whether the sample is there.
  bool find(int64_t sample, Encoded& encoded) const;
  void put(int64_t sample, const Encoded& encoded);
  // Its details as Reader::read_details() gives them, which may be empty.
  bool find_details(int64_t sample, media::Bytes& details) const;
  void put_details(int64_t sample, media::Bytes details);

  bool has(int64_t sample) const { return store_.find(sample) != nullptr; }
  bool has_details(int64_t sample) const { return store_.find(samples_ + sample) != nullptr; }
  int64_t published() const { return pictures_.load(std::memory_order_relaxed); }  // samples
  const FillOnce& store() const { return store_; }

 private:
  const int64_t samples_;
  FillOnce store_;  // the details of sample i are entry samples_ + i
  std::atomic<int64_t> pictures_{0};
};

// A whole stored picture: what fuse() needs of it.
struct DecodedPicture {
  media::Planes planes;
  int orientation = 1;
};

// Whole pictures, rows without padding. A YCbCr picture whose chroma has half of the columns and
// rows takes half of what its RGB would.
class DecodedCache {
 public:
  // `with_maps`: there is room in the tables for label maps too.
  DecodedCache(int64_t samples, int64_t budget, bool with_maps = false)
      : samples_(samples),
        with_maps_(with_maps),
        store_(with_maps ? 2 * samples : samples, budget) {}
  const DecodedPicture* find(int64_t sample) const;  // nullptr if it is not there
  void put(int64_t sample, const DecodedPicture& picture);
  // A byte for each pixel of the picture as it is to be seen; empty if it is not there.
  std::span<const uint8_t> find_map(int64_t sample) const;
  void put_map(int64_t sample, std::span<const uint8_t> map);
  bool full() const { return store_.full(); }
  int64_t published() const { return pictures_.load(std::memory_order_relaxed); }  // pictures
  const FillOnce& store() const { return store_; }

 private:
  const int64_t samples_;
  const bool with_maps_;
  FillOnce store_;  // the map of sample i is entry samples_ + i
  std::atomic<int64_t> pictures_{0};
};

}  // namespace stretto::data
