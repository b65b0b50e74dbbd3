// The two caches of a loader: samples as they lie in their files, and pictures as decoded.
#pragma once

#include <cstdint>

#include "stretto/data/fill_once.h"
#include "stretto/data/reader.h"
#include "stretto/media/picture.h"

namespace stretto::data {

// Bytes of samples. What find() gives stays valid as long as the cache. Safe for all threads.
class EncodedCache {
 public:
  EncodedCache(int64_t samples, int64_t budget) : store_(samples, budget) {}
  // Whether the sample is there.
  bool find(int64_t sample, Encoded& encoded) const;
  void put(int64_t sample, const Encoded& encoded);
  const FillOnce& store() const { return store_; }

 private:
  FillOnce store_;
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
  DecodedCache(int64_t samples, int64_t budget) : store_(samples, budget) {}
  const DecodedPicture* find(int64_t sample) const;  // nullptr if it is not there
  void put(int64_t sample, const DecodedPicture& picture);
  bool full() const { return store_.full(); }
  const FillOnce& store() const { return store_; }

 private:
  FillOnce store_;
};

}  // namespace stretto::data
