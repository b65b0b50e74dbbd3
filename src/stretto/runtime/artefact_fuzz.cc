// libFuzzer target for the artefact reader. Checksums would stop nearly every mutation at the door,
// so the fuzzer repairs them first: what is behind the door has to hold as well.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/runtime/artefact.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto owner = std::make_shared<std::vector<std::byte>>(
      reinterpret_cast<const std::byte*>(data), reinterpret_cast<const std::byte*>(data) + size);
  stretto::runtime::repair_checksums(*owner);
  try {
    stretto::runtime::load_bytes(*owner, owner, "fuzz");
  } catch (const stretto::FormatError&) {
  } catch (const stretto::Unsupported&) {
  } catch (const stretto::InvalidArgument&) {
  }
  return 0;
}
