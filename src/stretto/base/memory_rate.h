// How fast weights arrive that no cache holds.
#pragma once

#include <string_view>

#include "stretto/base/cpu.h"

namespace stretto {

// Bytes per second that one core streams from memory, typical of its kind and not measured here:
// the same model is compiled in the same way every time. What one core of Intel's servers gets is
// bound by its outstanding misses and the way across the mesh; on Golden Cove 10 GB/s were
// measured. Zen 5 had 48.
inline double memory_bytes_per_second(std::string_view core = cpu_info().core) {
  const bool mesh =
      core == "skylake" || core == "sunny_cove" || core == "golden_cove" || core == "redwood_cove";
  return mesh ? 11e9 : 48e9;
}

}  // namespace stretto
