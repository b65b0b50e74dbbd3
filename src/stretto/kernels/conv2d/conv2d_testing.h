// Problems for tests of conv2d.
#pragma once

#include <cstdint>

#include "stretto/kernels/conv2d/problem.h"

namespace stretto::kernels {

// One image, with a square map and window.
inline Conv2dProblem square(int64_t c, int64_t size, int64_t k, int32_t kernel, int32_t stride,
                            int32_t pad, int32_t groups = 1) {
  return {.n = 1,
          .c = c,
          .h = size,
          .w = size,
          .k = k,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_top = pad,
          .pad_left = pad,
          .pad_bottom = pad,
          .pad_right = pad,
          .groups = groups};
}

}  // namespace stretto::kernels
