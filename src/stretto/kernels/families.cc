#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/gemm/problem.h"

namespace stretto::kernels {

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &kConv2d,
      &kGemm,
  };
  return kFamilies;
}

}  // namespace stretto::kernels
