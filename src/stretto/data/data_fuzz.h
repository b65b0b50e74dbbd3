// What the fuzzer and the test of its corpus do with the bytes of a source.
#pragma once

#include "stretto/media/picture.h"

namespace stretto::data {

// The first byte says what the others are: "a" CSV, "b" JSON lines, "c" COCO, "d" tar, "e"
// TFRecord, "f" the index of a pack, "g" a restart table and its picture, "h" details, "i" a
// note of what a container has. Checksums of tar, of the index and of the note are made right
// before. Whether they were read. Throws InternalError if what was read is
// not inside of them, and nothing for bytes that are refused.
bool check_any_source(media::Bytes bytes);

}  // namespace stretto::data
