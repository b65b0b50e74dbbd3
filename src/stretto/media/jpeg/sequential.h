// The scan of an ordinary JPEG file, decoded without libjpeg: sequential, Huffman-coded, 8 bits,
// one or three components in one scan, and nothing wrong with it. Pixels are those of libjpeg's
// accurate transform. What is otherwise is left to libjpeg, which then finds what is wrong.
#pragma once

#include <optional>

#include "stretto/base/cpu.h"
#include "stretto/media/jpeg/library.h"

namespace stretto::media::jpeg {

// The planes of a region, in `buffer`: whole MCUs. `decompressor` has read the headers and is not
// changed. Every bit of the rows down to the region's last one has been decoded, of other columns
// too, so that damage there is found.
std::optional<Planes> decode_sequential(Decompressor& decompressor, const Region& region,
                                        Buffer& buffer, Isa isa);

}  // namespace stretto::media::jpeg
