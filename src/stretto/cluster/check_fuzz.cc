// libFuzzer target for what schedulers print. Seeds: tests/fuzz/scheduler.
#include "stretto/cluster/check_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::cluster::check_any_answer({reinterpret_cast<const char*>(data), size});
  return 0;
}
