// Decoding a part of a JPEG file that has restart markers: Huffman decoding can begin at each of
// them, so only the segments that meet the region are read. They become a small JPEG file whose
// pixels are, bit for bit, those of the whole one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/media/picture.h"

namespace stretto::media::jpeg {

// Where the segments of a file lie. A segment is a tile of the picture: some MCUs of one row, or
// some whole rows.
struct RestartTable {
  int64_t width = 0, height = 0;            // of the picture
  int64_t tile_width = 0, tile_height = 0;  // of a segment, in pixels; less at the right and bottom
  int64_t tiles_x = 0, tiles_y = 0;
  std::vector<uint32_t> begin;    // of each segment's data in the file, row by row; at last the end
  std::vector<std::byte> header;  // what a decoder needs of the file before its data
  size_t size_at = 0;             // in `header`: height and width, 2 bytes each
};

// Why a file has no table, in which case it is decoded as a whole.
struct RestartTableOrReason {
  RestartTable table;
  const char* reason = nullptr;  // nullptr: it has one
  explicit operator bool() const { return reason == nullptr; }
};

// Needs a sequential, Huffman-coded file of one scan with restart markers, each in its place, where
// the interval divides a row of MCUs or is a number of rows. Throws FormatError if its headers are
// wrong.
RestartTableOrReason restart_table(Bytes file);

// The same with the segments' places (RestartTable::begin) known from before, which are looked at
// instead of searched: the result is that of restart_table(file), or the reason why they cannot be
// those. Where a file has more restart markers than its size asks for, which decoders refuse, some
// of them may be left out.
RestartTableOrReason restart_table(Bytes file, std::span<const uint32_t> begin);

// As decode_planes(), which gives the same samples. `table` is of this very file; offsets outside
// of it are an InvalidArgument. The planes and the small file lie in `buffer` and `scratch`.
Planes decode_spliced(Bytes file, const RestartTable& table, const Region& region,
                      const DecodeOptions& options, Buffer& buffer, Buffer& scratch);

// The small file alone: the region grown to whole tiles. `covers` receives what it shows.
Bytes splice(Bytes file, const RestartTable& table, const Region& region, Buffer& scratch,
             Region& covers);

}  // namespace stretto::media::jpeg
