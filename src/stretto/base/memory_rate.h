// How fast data arrives and leaves: the one model that estimates of kernels use. Typical of a kind
// of core and not measured here, so that the same model is compiled in the same way every time.
#pragma once

#include <string_view>

#include "stretto/base/cpu.h"

namespace stretto {

// Bytes per second that one core reads from memory as a stream, such as weights that no cache
// holds. What one core of Intel's servers gets is bound by its outstanding misses and the way
// across the mesh; on Golden Cove 10 GB/s were measured. Zen 5 had 48.
inline double memory_bytes_per_second(std::string_view core = cpu_info().core) {
  const bool mesh =
      core == "skylake" || core == "sunny_cove" || core == "golden_cove" || core == "redwood_cove";
  return mesh ? 11e9 : 48e9;
}

// Bytes per second that one core reads and writes while it moves tensors between the outer caches
// and back: each byte written is read first and written back later, so it is a third of the stream.
inline double move_bytes_per_second() { return 16e9; }

}  // namespace stretto
