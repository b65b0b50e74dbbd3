#include "stretto/data/restarts.h"

#include <algorithm>
#include <cstdint>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/markers.h"

namespace stretto::data {
namespace {

[[noreturn]] void refuse(std::string_view why) {
  throw FormatError("restart table", -1, fmt::format("expected one of this picture: {}", why));
}

}  // namespace

// A byte that says how many bytes each number has, then the lengths of the segments.
std::vector<std::byte> encode_restarts(const media::jpeg::RestartTable& table) {
  const size_t count = table.begin.size() - 1;
  uint32_t longest = 0;
  for (size_t i = 0; i < count; ++i) {
    longest = std::max(longest, table.begin[i + 1] - table.begin[i]);
  }
  const size_t width = longest <= UINT16_MAX ? 2 : 4;
  std::vector<std::byte> bytes(1 + count * width);
  bytes[0] = static_cast<std::byte>(width);
  std::byte* to = bytes.data() + 1;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t length = table.begin[i + 1] - table.begin[i];
    for (size_t k = 0; k < width; ++k) *to++ = static_cast<std::byte>(length >> (8 * k));
  }
  return bytes;
}

media::jpeg::RestartTable decode_restarts(media::Bytes bytes, media::Bytes file) {
  const size_t width = bytes.empty() ? 0 : std::to_integer<size_t>(bytes[0]);
  if ((width != 2 && width != 4) || (bytes.size() - 1) % width != 0) {
    refuse("its bytes are no table");
  }
  const size_t count = (bytes.size() - 1) / width;
  if (count > file.size() || file.size() > UINT32_MAX) refuse("it is longer than the picture");
  std::vector<uint32_t> begin(count + 1);
  uint64_t at = media::jpeg::read_headers(file).data;
  for (size_t i = 0; i < count; ++i) {
    begin[i] = static_cast<uint32_t>(at);
    for (size_t k = 0; k < width; ++k) {
      at += std::to_integer<uint64_t>(bytes[1 + i * width + k]) << (8 * k);
    }
    if (at > file.size()) refuse("it ends behind the picture");
  }
  begin[count] = static_cast<uint32_t>(at);
  media::jpeg::RestartTableOrReason found = media::jpeg::restart_table(file, begin);
  if (!found) refuse(found.reason);
  return std::move(found.table);
}

}  // namespace stretto::data
