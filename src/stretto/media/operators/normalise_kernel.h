// normalise() as the kernels take it: everything checked.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"
#include "stretto/tensor/dtype.h"

namespace stretto::media::operators {

// to[i] = from[i] * scale + offset: float32, float16 or bfloat16, the numbers of one channel.
void scale_bytes(const uint8_t* from, int64_t count, float scale, float offset, DType dtype,
                 void* to, Isa isa);
// The same of R, G, B, R, ... with a scale and an offset for each channel.
void scale_rgb_bytes(const uint8_t* from, int64_t pixels, const float* scale, const float* offset,
                     DType dtype, void* to, Isa isa);

}  // namespace stretto::media::operators
