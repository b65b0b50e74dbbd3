// Takes memory out of the caches, so that its next use is timed as the first one after a long time.
#pragma once

#include <cstddef>

namespace stretto {

// Whether this processor drops chosen memory from its caches fast: x86-64 with CLFLUSHOPT, which
// all with AVX-512 and all Zen have. CLFLUSH, which older ones have, takes longer than reading so
// much other memory that nothing else is left.
bool can_flush();

// Writes `bytes` from `data` to memory and drops them from every cache of every core; what else the
// caches hold stays. Does nothing without can_flush(). One thread takes 0.1 ms per MiB.
void flush(const void* data, size_t bytes);

}  // namespace stretto
