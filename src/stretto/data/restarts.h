// The restart table of a JPEG file as bytes, as a pack keeps it before the file
// (docs/formats/pack.md).
#pragma once

#include <vector>

#include "stretto/media/jpeg/splice.h"
#include "stretto/media/picture.h"

namespace stretto::data {

// What a table says that its file's headers do not: how long each segment is.
std::vector<std::byte> encode_restarts(const media::jpeg::RestartTable& table);

// The table of `file`, to be decoded by decode_spliced(). The bytes are not trusted: each place is
// compared with the file, and the rest is read from its headers. Throws FormatError if they are not
// of this file.
media::jpeg::RestartTable decode_restarts(media::Bytes bytes, media::Bytes file);

}  // namespace stretto::data
