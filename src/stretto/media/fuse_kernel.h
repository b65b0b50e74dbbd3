// One resampling as the kernels take it: everything checked, nothing allocated. The picture is made
// in bands of as many outputs of axis y as a vector has lanes. Each plane's rows are combined into
// rows of floats, transposed, and combined along x, one vector for the whole band; then colours are
// converted and stored.
#pragma once

#include <cstdint>
#include <optional>

#include "stretto/base/cpu.h"
#include "stretto/media/colour.h"
#include "stretto/media/weights.h"
#include "stretto/tensor/dtype.h"

namespace stretto::media {

struct KernelPlane {
  const uint8_t* data;  // of sample (first_x, first_y): no output takes one before it
  int64_t stride;
  int64_t first_x, first_y, width;
  const Taps *x, *y;
};

enum class KernelColour : uint8_t {
  kRaw,   // one plane to one channel, not clamped
  kGrey,  // one plane to three equal channels
  kRgb,
  kYCbCr,
};

struct KernelJob {
  KernelColour colour = KernelColour::kRaw;
  bool transpose = false;  // outputs of axis x are rows of the result
  int planes = 1;
  KernelPlane plane[3];
  const ColourMatrix* change = nullptr;
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t row_stride = 0, pixel_stride = 1, channel_stride = 0;
  float scale[3] = {1, 1, 1}, offset[3] = {};  // not for uint8
};

// Floats that run_kernel() needs at `scratch`, aligned to 64 bytes.
int64_t kernel_floats(const KernelJob& job, Isa isa);
void run_kernel(const KernelJob& job, float* scratch, Isa isa);

// to[k][i] = from[3 * i + k]: `rows` rows of `width` pixels.
void split_channels(const uint8_t* from, int64_t from_stride, uint8_t* const to[3],
                    int64_t to_stride, int64_t width, int64_t rows, Isa isa);

}  // namespace stretto::media
