// The memory rates that all estimates of kernels use. They are typical of a kind of core and are
// not measured here, so that the same model is compiled in the same way every time. There are two:
// weights are only read, and tensors that move are read and written. docs/design/tuning.md says
// what goes wrong with only one.
#pragma once

#include <string_view>

#include "stretto/base/cpu.h"

namespace stretto {

// Bytes per second that one core reads from memory as a stream, such as weights that no cache
// holds. One core of an Intel server is limited by its outstanding misses and by the latency of the
// mesh: 10 GB/s were measured on Golden Cove, 48 GB/s on Zen 5.
inline double memory_bytes_per_second(std::string_view core = cpu_info().core) {
  const bool mesh =
      core == "skylake" || core == "sunny_cove" || core == "golden_cove" || core == "redwood_cove";
  return mesh ? 11e9 : 48e9;
}

// Bytes per second that one core reads and writes while it moves tensors between the outer caches
// and back: each byte written is read first and written back later, so it is a third of the stream.
inline double move_bytes_per_second() { return 16e9; }

}  // namespace stretto
