#include "stretto/base/flush.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace stretto {

#if defined(__x86_64__)
namespace {

constexpr size_t kLine = 64;

__attribute__((target("clflushopt"))) void flush_lines(const std::byte* data, size_t bytes) {
  const std::byte* const end = data + bytes;
  // Rounded down: memory need not begin with a line.
  data -= reinterpret_cast<uintptr_t>(data) % kLine;
  for (; data < end; data += kLine) _mm_clflushopt(const_cast<std::byte*>(data));
  _mm_mfence();
}

}  // namespace

bool can_flush() {
  static const bool can = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
  }();
  return can;
}

void flush(const void* data, size_t bytes) {
  if (can_flush() && bytes > 0) flush_lines(static_cast<const std::byte*>(data), bytes);
}
#else
bool can_flush() { return false; }

void flush(const void*, size_t) {}
#endif

}  // namespace stretto
