// What belongs to a picture beside its boxes: its number in the source, outlines of its things, and
// a label map. Encoded in a few bytes (docs/formats/pack.md), which a table of samples or a pack
// keeps until a loader is asked for masks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stretto/media/picture.h"

namespace stretto::data {

// Where a thing is, in pixels of the picture as it is to be seen: in any of some polygons, or runs.
struct Outline {
  int64_t box = -1;  // which of the sample's annotations; -1: a crowd, whose pixels are ignored
  std::vector<std::vector<double>> polygons;  // x, y, x, y, ...
  // Of COCO: lengths of runs down the columns, one column after the other, the first one outside.
  std::vector<uint32_t> runs;
  int64_t width = 0, height = 0;  // of the picture that the runs are of
};

struct Details {
  std::optional<int64_t> image_id;
  std::vector<Outline> outlines;
  media::Bytes mask;  // a PNG file of classes
};

// The first byte of details that are a label map alone: the rest is its file.
constexpr uint8_t kMaskAlone = 4;

// More is refused: a damaged pack does not take the memory. Of all details of a picture, of its
// outlines, and how many outlines and polygons there are.
constexpr uint64_t kLargestDetails = uint64_t{64} << 20, kLargestOutlines = uint64_t{16} << 20;
constexpr size_t kMostOutlines = 1 << 16;

// Empty where there is nothing.
std::vector<std::byte> encode_details(const Details& details);
// `mask` points into `bytes`. Throws FormatError.
Details decode_details(media::Bytes bytes);

// The number alone, which lies in the first bytes: more than kLongestId are not looked at.
constexpr uint64_t kLongestId = 11;
std::optional<int64_t> decode_image_id(media::Bytes bytes);
// Whether more than the number is in them.
bool has_outlines_or_mask(media::Bytes bytes);
// The same details with another number in the place of theirs, if they have one.
std::vector<std::byte> with_image_id(media::Bytes bytes, int64_t id);

// The outline without its box, and the details of such: for who makes them piece by piece.
std::vector<std::byte> encode_outline(const Outline& outline);
struct EncodedOutline {
  int64_t box = -1;
  std::vector<std::byte> bytes;
};
std::vector<std::byte> encode_details(std::optional<int64_t> image_id,
                                      std::span<const EncodedOutline> outlines, media::Bytes mask);

// The runs of COCO's compressed text. Throws FormatError.
std::vector<uint32_t> runs_of_text(std::string_view text);

}  // namespace stretto::data
