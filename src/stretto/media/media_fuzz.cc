// libFuzzer target for the decoders of pictures. Seeds: tests/fuzz/media.
#include "stretto/media/media_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::media::check_any_picture(std::as_bytes(std::span(data, size)));
  return 0;
}
