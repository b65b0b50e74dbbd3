// libFuzzer target for everything behind the importer: passes, lowering, compilation, kernels.
// Seeds: tests/fuzz/onnx.
#include <cstddef>
#include <cstdint>

#include "stretto/runtime/optimize_any.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::runtime::optimize_and_run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
