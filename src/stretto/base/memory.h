// How much memory there is, and a ledger of what Stretto's tensors and buffers take of it.
#pragma once

#include <cstddef>
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

inline constexpr size_t kHugePage = size_t{2} << 20;

// `bytes`, a multiple of kHugePage, at such an address and in huge pages where the system has them:
// a stream through pages of 4 KiB misses the TLB at each of them. nullptr when the system refuses.
// std::free() hands it back. The ledger does not know of it.
void* allocate_in_huge_pages(size_t bytes) noexcept;

}  // namespace stretto
