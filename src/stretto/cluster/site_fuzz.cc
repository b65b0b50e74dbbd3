// libFuzzer target for site files. Seeds: tests/fuzz/site.
#include "stretto/cluster/site_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::cluster::check_any_site({reinterpret_cast<const char*>(data), size});
  return 0;
}
