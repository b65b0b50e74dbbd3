#include "stretto/tensor/identity.h"

#include <fmt/format.h>

namespace stretto {
namespace {

// To compare so many values takes less than to pack what they are part of.
constexpr size_t kSmallBytes = 16 << 10;

}  // namespace

std::string identity(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::string name = fmt::format("{}[{}]", dtype_name(tensor.dtype()), shape_text(tensor.shape()));
  if (tensor.bytes() > kSmallBytes) return name + fmt::format("@{}", tensor.data());
  name += ':';
  return name.append(static_cast<const char*>(tensor.data()), tensor.bytes());
}

}  // namespace stretto
