#include "stretto/tensor/identity.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stretto {
namespace {

// To hash so many takes less than to pack what they are part of.
constexpr size_t kSmallBytes = 16 << 10;

std::string hash_of(const Tensor& tensor) {
  const XXH128_hash_t hash = XXH3_128bits(tensor.data(), tensor.bytes());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string identity(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  const std::string kind =
      fmt::format("{}[{}]", dtype_name(tensor.dtype()), shape_text(tensor.shape()));
  if (tensor.bytes() > kSmallBytes) return fmt::format("{}@{}", kind, tensor.data());
  return fmt::format("{}#{}", kind, hash_of(tensor));
}

std::string content_name(const Tensor& tensor) {
  return fmt::format("{} x {} #{}", dtype_name(tensor.dtype()), tensor.count(), hash_of(tensor));
}

}  // namespace stretto
