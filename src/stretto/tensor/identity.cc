#include "stretto/tensor/identity.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stretto {
namespace {

// To hash so many takes less than to pack what they are part of.
constexpr size_t kSmallBytes = 16 << 10;

}  // namespace

std::string identity(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  const std::string kind =
      fmt::format("{}[{}]", dtype_name(tensor.dtype()), shape_text(tensor.shape()));
  if (tensor.bytes() > kSmallBytes) return fmt::format("{}@{}", kind, tensor.data());
  const XXH128_hash_t hash = XXH3_128bits(tensor.data(), tensor.bytes());
  return fmt::format("{}#{:016x}{:016x}", kind, hash.high64, hash.low64);
}

}  // namespace stretto
