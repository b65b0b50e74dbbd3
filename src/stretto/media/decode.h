// Pictures of every format that Stretto reads, told apart by their first bytes.
#pragma once

#include "stretto/media/picture.h"

namespace stretto::media {

// What a format needs: a row of the list in decode.cc.
struct FormatRow {
  Format format;
  bool (*matches)(Bytes file);
  PictureInfo (*read_info)(Bytes file);
  RgbPicture (*decode_rgb)(Bytes file, const DecodeOptions& options);
};

std::span<const FormatRow> formats();

// Each throws FormatError if the bytes are of no format or damaged, Unsupported if the picture is
// of a kind that is not decoded or larger than the options allow.
const FormatRow& format_of(Bytes file);
PictureInfo read_info(Bytes file);
RgbPicture decode_rgb(Bytes file, const DecodeOptions& options = {});

// The part of the picture that `region` names, for fuse(): of a JPEG file as its components are
// stored, of others as RGB. The planes lie in `buffer`.
Planes decode_planes(Bytes file, const Region& region, const DecodeOptions& options,
                     Buffer& buffer);

}  // namespace stretto::media
