#include "stretto/kernels/attention/problem.h"
#include "stretto/kernels/concat_channels/problem.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/copy_region/problem.h"
#include "stretto/kernels/cumsum/problem.h"
#include "stretto/kernels/elementwise/problem.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/fourier/problem.h"
#include "stretto/kernels/gather/problem.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/global_pool/problem.h"
#include "stretto/kernels/group_norm/problem.h"
#include "stretto/kernels/layer_norm/problem.h"
#include "stretto/kernels/matmul/problem.h"
#include "stretto/kernels/matmul_integer/problem.h"
#include "stretto/kernels/pool2d/problem.h"
#include "stretto/kernels/recurrent/problem.h"
#include "stretto/kernels/reduce/problem.h"
#include "stretto/kernels/reorder/problem.h"
#include "stretto/kernels/resize/problem.h"
#include "stretto/kernels/row_index/problem.h"
#include "stretto/kernels/softmax/problem.h"
#include "stretto/kernels/transpose/problem.h"
#include "stretto/kernels/trees/problem.h"

namespace stretto::kernels {

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &kAttention,  &kConcatChannels, &kConv2d,    &kConvTranspose2d, &kCopyRegion,
      &kCumSum,     &kElementwise,    &kFourier,   &kGather,          &kGemm,
      &kGlobalPool, &kGroupNorm,      &kLayerNorm, &kMatmul,          &kMatmulInteger,
      &kPool2d,     &kRecurrent,      &kReduce,    &kReorder,         &kResize,
      &kRowIndex,   &kSoftmax,        &kTranspose, &kTrees,
  };
  return kFamilies;
}

}  // namespace stretto::kernels
