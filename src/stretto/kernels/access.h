// Element offsets in a rank-4 NCHW tensor of either layout. For references, packing and tests; hot
// loops compute their own strides.
#pragma once

#include <array>
#include <cstdint>

#include "stretto/tensor/layout.h"

namespace stretto::kernels {

class Access {
 public:
  Access(std::array<int64_t, 4> shape, Layout layout, int block)
      : block_(layout == Layout::kBlocked ? block : 1),
        w_(shape[3]),
        plane_(shape[2] * shape[3]),
        blocks_((shape[1] + block_ - 1) / block_) {}

  int64_t at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return ((n * blocks_ + c / block_) * plane_ + y * w_ + x) * block_ + c % block_;
  }

 private:
  int64_t block_, w_, plane_, blocks_;
};

}  // namespace stretto::kernels
