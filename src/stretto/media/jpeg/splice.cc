#include "stretto/media/jpeg/splice.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/markers.h"

namespace stretto::media::jpeg {
namespace {

constexpr int kBlock = 8;
constexpr size_t kEnd = 0xD9;  // the marker behind the last segment

// Behind segment `i`.
constexpr size_t restart_marker(size_t i) { return 0xD0 + i % 8; }

// What the decoder needs. Others, such as a profile or a thumbnail of 64 kB, would be copied for
// every region.
bool is_needed(const Segment& segment) {
  const int marker = segment.marker;
  const bool application = marker >= 0xE0 && marker <= 0xEF;
  return marker != 0xFE && (!application || marker == 0xE0 || marker == 0xEE);
}

void copy_header(Bytes file, const Headers& headers, RestartTable& table) {
  for (const Segment& segment : headers.segments) {
    if (!is_needed(segment)) continue;
    if (headers.size_at > segment.begin && headers.size_at < segment.end) {
      table.size_at = table.header.size() + (headers.size_at - segment.begin);
    }
    table.header.insert(table.header.end(), file.begin() + static_cast<ptrdiff_t>(segment.begin),
                        file.begin() + static_cast<ptrdiff_t>(segment.end));
  }
}

// The place of the next marker at or after `at`, which no decoder takes for data; the file's size
// if there is none.
size_t next_marker(Bytes file, size_t at) {
  while (at + 1 < file.size()) {
    const void* found = std::memchr(file.data() + at, 0xFF, file.size() - 1 - at);
    if (found == nullptr) break;
    at = static_cast<size_t>(static_cast<const std::byte*>(found) - file.data());
    if (file[at + 1] != std::byte{0}) return at;
    at += 2;
  }
  return file.size();
}

// Tables may come from an index file.
void check_table(const RestartTable& t) {
  constexpr int64_t kMostPixels = 65535;     // JPEG's own limit of a side
  constexpr int64_t kLargestTile = 1 << 24;  // 65535 MCUs, in rows of one
  const auto in_range = [](int64_t n) { return n >= 1 && n <= kMostPixels; };
  if (!in_range(t.width) || !in_range(t.height) || t.tile_width < 1 || t.tile_height < 1 ||
      t.tile_width > kLargestTile || t.tile_height > kLargestTile ||
      t.tiles_x != ceil_div(t.width, t.tile_width) ||
      t.tiles_y != ceil_div(t.height, t.tile_height) ||
      t.begin.size() != static_cast<size_t>(t.tiles_x * t.tiles_y) + 1 ||
      !std::is_sorted(t.begin.begin(), t.begin.end()) || t.header.size() < 4 ||
      t.size_at > t.header.size() - 4) {
    throw_invalid("splice: the restart table is inconsistent");
  }
}

RestartTableOrReason none(const char* reason) { return {.table = {}, .reason = reason}; }

// The table without the segments' places but the first.
RestartTableOrReason tiling(Bytes file) {
  const Headers headers = read_headers(file);
  if (headers.frame != 0xC0 && headers.frame != 0xC1) {
    return none("it is not sequential and Huffman-coded");
  }
  if (headers.restart_interval == 0) return none("it has no restart markers");
  if (headers.components_in_scan != static_cast<int>(headers.components.size())) {
    return none("it has several scans");
  }
  if (file.size() > UINT32_MAX) return none("it is larger than 4 GiB");

  // In a scan of one component an MCU is one block (T.81, A.2.2).
  const bool single = headers.components.size() == 1;
  const int64_t mcu_w = kBlock * (single ? 1 : headers.max_h());
  const int64_t mcu_h = kBlock * (single ? 1 : headers.max_v());
  const int64_t columns = ceil_div(headers.width, mcu_w);
  const int64_t interval = headers.restart_interval;
  if (columns % interval != 0 && interval % columns != 0) {
    return none("its restart interval and its rows of MCUs do not divide each other");
  }
  RestartTableOrReason result;
  RestartTable& table = result.table;
  table.width = headers.width;
  table.height = headers.height;
  table.tile_width = std::min(interval, columns) * mcu_w;
  table.tile_height = std::max<int64_t>(interval / columns, 1) * mcu_h;
  table.tiles_x = ceil_div(headers.width, table.tile_width);
  table.tiles_y = ceil_div(headers.height, table.tile_height);
  const auto count = static_cast<size_t>(table.tiles_x * table.tiles_y);
  // A marker and an empty segment take two bytes: no memory for segments that cannot be there.
  if (count > (file.size() - headers.data) / 2 + 1) return none("it lacks restart markers");

  table.begin.push_back(static_cast<uint32_t>(headers.data));
  copy_header(file, headers, table);
  return result;
}

}  // namespace

RestartTableOrReason restart_table(Bytes file) {
  RestartTableOrReason result = tiling(file);
  if (!result) return result;
  RestartTable& table = result.table;
  const auto count = static_cast<size_t>(table.tiles_x * table.tiles_y);
  table.begin.reserve(count + 1);
  size_t at = table.begin.front();
  for (size_t i = 0; i < count; ++i) {
    at = next_marker(file, at);
    if (at == file.size()) return none("its data ends early");
    const auto marker = std::to_integer<size_t>(file[at + 1]);
    if (i + 1 == count) {
      if (marker != kEnd) return none("its data does not end where its restart markers do");
      table.begin.push_back(static_cast<uint32_t>(at));
    } else {
      if (marker != restart_marker(i)) return none("its restart markers are not in order");
      at += 2;
      table.begin.push_back(static_cast<uint32_t>(at));
    }
  }
  return result;
}

RestartTableOrReason restart_table(Bytes file, std::span<const uint32_t> begin) {
  RestartTableOrReason result = tiling(file);
  if (!result) return result;
  RestartTable& table = result.table;
  const auto count = static_cast<size_t>(table.tiles_x * table.tiles_y);
  if (begin.size() != count + 1 || begin.front() != table.begin.front()) {
    return none("the places are of another file");
  }
  const auto is_marker = [&](size_t at, size_t marker) {
    return at + 2 <= file.size() && file[at] == std::byte{0xFF} &&
           std::to_integer<size_t>(file[at + 1]) == marker;
  };
  for (size_t i = 0; i < count; ++i) {
    const size_t next = begin[i + 1];
    const bool last = i + 1 == count;
    const size_t least = begin[i] + (last ? size_t{0} : 2);
    if (next < least || !(last ? is_marker(next, kEnd) : is_marker(next - 2, restart_marker(i)))) {
      return none("the places are not those of restart markers");
    }
  }
  table.begin.assign(begin.begin(), begin.end());
  return result;
}

Bytes splice(Bytes file, const RestartTable& table, const Region& region, Buffer& scratch,
             Region& covers) {
  check_table(table);
  check_region(region, table.width, table.height);
  const auto tiles = static_cast<size_t>(table.tiles_x * table.tiles_y);
  const int64_t left = region.x0 / table.tile_width, top = region.y0 / table.tile_height;
  const int64_t right = ceil_div(region.x1, table.tile_width);
  const int64_t bottom = ceil_div(region.y1, table.tile_height);
  covers = {.x0 = left * table.tile_width,
            .y0 = top * table.tile_height,
            .x1 = std::min(right * table.tile_width, table.width),
            .y1 = std::min(bottom * table.tile_height, table.height)};

  // A segment's two bytes of marker, before the next one begins, are copied with it.
  size_t bytes = table.header.size();
  for (int64_t y = top; y < bottom; ++y) {
    const auto first = static_cast<size_t>(y * table.tiles_x + left);
    const auto last = static_cast<size_t>(y * table.tiles_x + right);
    for (size_t i = first; i < last; ++i) {
      const size_t begin = table.begin[i], next = table.begin[i + 1];
      const size_t end = i + 1 == tiles ? next + 2 : next;
      if (end > file.size() || end < begin + 2) {
        throw_invalid("splice: the restart table is of another file");
      }
      bytes += end - begin;
    }
  }
  auto* const data = reinterpret_cast<std::byte*>(scratch.get(bytes));
  std::byte* to = std::copy(table.header.begin(), table.header.end(), data);
  const auto store_word = [](std::byte* at, int64_t value) {
    at[0] = static_cast<std::byte>(value >> 8);
    at[1] = static_cast<std::byte>(value);
  };
  store_word(data + table.size_at, covers.height());
  store_word(data + table.size_at + 2, covers.width());
  int number = 0;
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x) {
      const auto i = static_cast<size_t>(y * table.tiles_x + x);
      const size_t end = i + 1 == tiles ? table.begin[i + 1] : table.begin[i + 1] - 2;
      to = std::copy(file.data() + table.begin[i], file.data() + end, to);
      *to++ = std::byte{0xFF};
      *to++ = static_cast<std::byte>(0xD0 + number++ % 8);
    }
  }
  to[-1] = std::byte{0xD9};
  return {data, to};
}

Planes decode_spliced(Bytes file, const RestartTable& table, const Region& region,
                      const DecodeOptions& options, Buffer& buffer, Buffer& scratch) {
  Region covers;
  const Bytes part = splice(file, table, region, scratch, covers);
  const Region wanted{.x0 = region.x0 - covers.x0,
                      .y0 = region.y0 - covers.y0,
                      .x1 = region.x1 - covers.x0,
                      .y1 = region.y1 - covers.y0};
  Planes planes = decode_planes(part, wanted, options, buffer);
  planes.width = table.width;
  planes.height = table.height;
  for (int k = 0; k < planes.count; ++k) {
    Plane& plane = planes.plane[k];
    // Tiles begin at whole blocks of every component.
    plane.x0 += covers.x0 / plane.ratio_x;
    plane.y0 += covers.y0 / plane.ratio_y;
    plane.full_width = ceil_div(table.width, plane.ratio_x);
    plane.full_height = ceil_div(table.height, plane.ratio_y);
  }
  return planes;
}

}  // namespace stretto::media::jpeg
