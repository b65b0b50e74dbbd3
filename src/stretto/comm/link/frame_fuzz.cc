// libFuzzer target: parses any bytes as a header, and as a header with a correct checksum.
#include <cstdlib>
#include <cstring>

#include "stretto/comm/link/frame.h"

using namespace stretto::comm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FrameBytes bytes{};
  std::memcpy(bytes.data(), data, size < kFrameBytes ? size : kFrameBytes);
  const auto frame = parse_frame(bytes);
  if (!frame) return 0;
  // What parses is exactly what encode_frame writes.
  if (encode_frame(*frame) != bytes) std::abort();
  return 0;
}
