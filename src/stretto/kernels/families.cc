#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/family.h"

namespace stretto::kernels {

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &kConv2d,
  };
  return kFamilies;
}

}  // namespace stretto::kernels
