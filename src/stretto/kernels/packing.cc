#include "stretto/kernels/packing.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string packing_text(std::string_view name, int version, int64_t block, int64_t panels) {
  return fmt::format("{}.{}.b{}.p{}", name, version, block, panels);
}

std::string_view architecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

}  // namespace stretto::kernels
