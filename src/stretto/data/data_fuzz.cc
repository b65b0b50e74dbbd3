// libFuzzer target for the readers of datasets. Seeds: tests/fuzz/data.
#include "stretto/data/data_fuzz.h"

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::data::check_any_source(std::as_bytes(std::span(data, size)));
  return 0;
}
