#include <algorithm>
#include <cstring>
#include <new>

#include "stretto/data/caches.h"

namespace stretto::data {
namespace {

constexpr size_t kHeaderBytes = (sizeof(DecodedPicture) + 63) / 64 * 64;

// The planes of RGB pictures are every third byte of the same rows.
bool interleaved(const media::Planes& planes) { return planes.plane[0].step != 1; }

// Bytes in a row, without padding.
size_t row_bytes(const media::Plane& plane) {
  return static_cast<size_t>(plane.width * plane.step);
}

}  // namespace

const DecodedPicture* DecodedCache::find(int64_t sample) const {
  const std::byte* const data = store_.find(sample);
  return data == nullptr ? nullptr : std::launder(reinterpret_cast<const DecodedPicture*>(data));
}

void DecodedCache::put(int64_t sample, const DecodedPicture& picture) {
  const media::Planes& from = picture.planes;
  const int stored = interleaved(from) ? 1 : from.count;
  size_t bytes = kHeaderBytes;
  for (int k = 0; k < stored; ++k) {
    bytes += row_bytes(from.plane[k]) * static_cast<size_t>(from.plane[k].height);
  }
  std::byte* const data = store_.claim(sample, bytes);
  if (data == nullptr) return;
  auto* const entry = new (data) DecodedPicture(picture);
  auto* to = reinterpret_cast<uint8_t*>(data + kHeaderBytes);
  for (int k = 0; k < from.count; ++k) {
    const media::Plane& plane = from.plane[k];
    const size_t row = row_bytes(plane);
    entry->planes.plane[k].stride = static_cast<int64_t>(row);
    if (interleaved(from)) {
      entry->planes.plane[k].data = to + (plane.data - from.plane[0].data);
      if (k > 0) continue;
    } else {
      entry->planes.plane[k].data = to;
    }
    uint8_t* at = to;
    for (int64_t y = 0; y < plane.height; ++y, at += row) {
      std::copy_n(plane.data + y * plane.stride, row, at);
    }
    if (!interleaved(from)) to = at;
  }
  store_.publish(sample, data);
  pictures_.fetch_add(1, std::memory_order_relaxed);
}

std::span<const uint8_t> DecodedCache::find_map(int64_t sample) const {
  if (!with_maps_) return {};
  const std::byte* const data = store_.find(samples_ + sample);
  if (data == nullptr) return {};
  uint64_t bytes;
  std::memcpy(&bytes, data, sizeof bytes);
  return {reinterpret_cast<const uint8_t*>(data + sizeof bytes), bytes};
}

void DecodedCache::put_map(int64_t sample, std::span<const uint8_t> map) {
  const uint64_t bytes = map.size();
  std::byte* const data = store_.claim(samples_ + sample, sizeof bytes + bytes);
  if (data == nullptr) return;
  std::memcpy(data, &bytes, sizeof bytes);
  std::memcpy(data + sizeof bytes, map.data(), bytes);
  store_.publish(samples_ + sample, data);
}

}  // namespace stretto::data
