// How much memory there is, and a ledger of what Stretto's tensors and buffers take of it.
#pragma once

#include <cstdint>

namespace stretto {

// The memory of the machine, or of the control group that this process lives in when that is less.
// Read once; thread-safe.
int64_t total_memory_bytes();

// Enters `bytes` into the ledger of this process. Throws Unsupported, and enters nothing, when the
// sum would exceed total_memory_bytes(): what cannot fit must fail at once and not after the system
// has begun to kill processes. Thread-safe, takes no lock.
void take_memory(int64_t bytes);
void return_memory(int64_t bytes) noexcept;

}  // namespace stretto
