#include "stretto/kernels/attention/problem.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/elementwise/problem.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/matmul/problem.h"
#include "stretto/kernels/global_pool/problem.h"
#include "stretto/kernels/group_norm/problem.h"
#include "stretto/kernels/layer_norm/problem.h"
#include "stretto/kernels/pool2d/problem.h"
#include "stretto/kernels/reorder/problem.h"
#include "stretto/kernels/softmax/problem.h"

namespace stretto::kernels {

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &kAttention,
      &kConv2d,
      &kElementwise,
      &kConvTranspose2d,
      &kGemm,
      &kMatmul,
      &kGlobalPool,
      &kGroupNorm,
      &kLayerNorm,
      &kPool2d,
      &kReorder,
      &kSoftmax,
  };
  return kFamilies;
}

}  // namespace stretto::kernels
