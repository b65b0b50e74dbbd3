// JPEG files to pixels, by libjpeg-turbo and for ordinary files by sequential.h. Baseline,
// extended, progressive and arithmetic-coded files of 8 bits with 1, 3 or 4 components. FormatError
// says what is wrong with a file, Unsupported what is right but not possible here.
#pragma once

#include "stretto/media/jpeg/markers.h"
#include "stretto/media/picture.h"

namespace stretto::media::jpeg {

// The components of a part of the picture at their own resolution, without upsampling: grey, YCbCr
// or RGB, as stored. CMYK and YCCK become RGB by Pillow's rule. The planes lie in `buffer` and hold
// at least the region, whole blocks at its sides. The IDCT is the accurate integer one.
//
// Limit: Huffman decoding from the first row to the last one of the region, at full width.
Planes decode_planes(Bytes file, const Region& region, const DecodeOptions& options,
                     Buffer& buffer);

// The same samples without our own decoder of ordinary files (sequential.h): for comparisons.
Planes decode_planes_by_libjpeg(Bytes file, const Region& region, const DecodeOptions& options,
                                Buffer& buffer);

// The picture in RGB as Pillow decodes it: smooth upsampling of chroma, then to RGB. Unlike there,
// blocks of a progressive file that lacks its last scans are not smoothed.
RgbPicture decode_rgb(Bytes file, const DecodeOptions& options = {});

}  // namespace stretto::media::jpeg
