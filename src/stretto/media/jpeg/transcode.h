// Lossless rewriting of a JPEG file, so that parts of it decode fast.
#pragma once

#include <cstddef>
#include <vector>

#include "stretto/media/picture.h"

namespace stretto::media::jpeg {

// The same picture, coefficient by coefficient, as a sequential file of one scan with Huffman
// tables made for it and restart markers every 64 pixels or so (the number of MCUs divides a row; a
// row where none does). Application markers and comments are kept (EXIF, ICC). Before it returns it
// reads both files and compares all coefficients and quantisation tables: InternalError if they
// differ. FormatError and Unsupported as for decoding.
std::vector<std::byte> transcode(Bytes file, const DecodeOptions& options = {});

// The restart interval, in MCUs, that transcode() chooses for a row of `mcus` MCUs of this width.
int64_t restart_interval_for(int64_t mcus, int64_t mcu_width);

}  // namespace stretto::media::jpeg
