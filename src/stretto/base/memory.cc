#include "stretto/base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>

#include "stretto/base/error.h"

namespace stretto {
namespace {

std::atomic<int64_t> g_taken{0};

// Both generations of control groups, as a container sees its own; "max" and absent files are no
// limit.
int64_t control_group_limit() {
  int64_t limit = INT64_MAX;
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t bytes = 0;
    if (std::ifstream(path) >> bytes && bytes > 0) limit = std::min(limit, bytes);
  }
  return limit;
}

int64_t read_total() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const int64_t machine = pages > 0 && page > 0 ? pages * page : INT64_MAX;
  return std::min(machine, control_group_limit());
}

}  // namespace

int64_t total_memory_bytes() {
  static const int64_t total = read_total();
  return total;
}

void take_memory(int64_t bytes) {
  const int64_t total = total_memory_bytes();
  int64_t taken = g_taken.load(std::memory_order_relaxed);
  do {
    if (bytes > total - taken) {
      throw_unsupported("memory: {} more bytes do not fit: {} of {} bytes are in use", bytes, taken,
                        total);
    }
  } while (!g_taken.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
}

void return_memory(int64_t bytes) noexcept { g_taken.fetch_sub(bytes, std::memory_order_relaxed); }

void* allocate_in_huge_pages(size_t bytes) noexcept {
  void* memory = std::aligned_alloc(kHugePage, bytes);
#ifdef MADV_HUGEPAGE
  if (memory != nullptr) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish
#endif
  return memory;
}

}  // namespace stretto
