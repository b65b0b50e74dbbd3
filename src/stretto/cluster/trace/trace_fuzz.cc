// libFuzzer target for the readers of traces. Seeds: tests/fuzz/trace.
#include "stretto/cluster/trace/trace_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::cluster::check_any_trace({reinterpret_cast<const char*>(data), size});
  return 0;
}
