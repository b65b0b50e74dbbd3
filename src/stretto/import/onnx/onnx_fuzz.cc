// libFuzzer target for the importer. Seeds: tests/fuzz/onnx.
#include "stretto/import/onnx/onnx_fuzz.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::onnx::check_any_model({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
