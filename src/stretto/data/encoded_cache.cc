#include <cstring>

#include "stretto/data/caches.h"

namespace stretto::data {
namespace {

// Before the bytes of an entry.
struct EncodedHeader {
  uint64_t restart_bytes, file_bytes;
};

}  // namespace

bool EncodedCache::find(int64_t sample, Encoded& encoded) const {
  const std::byte* const data = store_.find(sample);
  if (data == nullptr) return false;
  EncodedHeader header;
  std::memcpy(&header, data, sizeof header);
  const std::byte* const bytes = data + sizeof header;
  encoded = {.restarts = {bytes, header.restart_bytes},
             .file = {bytes + header.restart_bytes, header.file_bytes}};
  return true;
}

void EncodedCache::put(int64_t sample, const Encoded& encoded) {
  const EncodedHeader header{.restart_bytes = encoded.restarts.size(),
                             .file_bytes = encoded.file.size()};
  std::byte* const data =
      store_.claim(sample, sizeof header + header.restart_bytes + header.file_bytes);
  if (data == nullptr) return;
  std::memcpy(data, &header, sizeof header);
  std::byte* to = data + sizeof header;
  to = std::copy(encoded.restarts.begin(), encoded.restarts.end(), to);
  std::copy(encoded.file.begin(), encoded.file.end(), to);
  store_.publish(sample, data);
  pictures_.fetch_add(1, std::memory_order_relaxed);
}

bool EncodedCache::find_details(int64_t sample, media::Bytes& details) const {
  const std::byte* const data = store_.find(samples_ + sample);
  if (data == nullptr) return false;
  uint64_t bytes;
  std::memcpy(&bytes, data, sizeof bytes);
  details = {data + sizeof bytes, bytes};
  return true;
}

void EncodedCache::put_details(int64_t sample, media::Bytes details) {
  const uint64_t bytes = details.size();
  std::byte* const data = store_.claim(samples_ + sample, sizeof bytes + bytes);
  if (data == nullptr) return;
  std::memcpy(data, &bytes, sizeof bytes);
  std::copy(details.begin(), details.end(), data + sizeof bytes);
  store_.publish(samples_ + sample, data);
}

}  // namespace stretto::data
