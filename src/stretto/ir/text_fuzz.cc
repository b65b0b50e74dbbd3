// libFuzzer target for the text form. Seeds: tests/fuzz/text.
#include "stretto/ir/text_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::ir::check_any_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
