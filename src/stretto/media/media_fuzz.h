// What the fuzzer and the test of its corpus do with a file.
#pragma once

#include "stretto/media/picture.h"

namespace stretto::media {

// Reads, decodes, splices, rewrites and resizes what may be a picture. Whether it was decoded.
// Throws InternalError if two ways to the same pixels disagree, and nothing for any other file.
bool check_any_picture(Bytes file);

}  // namespace stretto::media
