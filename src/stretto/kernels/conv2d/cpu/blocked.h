// What the convolution rows on the blocked layout share.
#pragma once

#include <algorithm>
#include <span>

#include "stretto/kernels/conv2d/cpu/borders.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels::conv2d {

inline int64_t blocks_of(int64_t channels, int64_t block) { return (channels + block - 1) / block; }

inline Axis vertical_axis(const Conv2dProblem& p) {
  return {p.h, p.out_h(), p.kernel_h, p.stride_h, p.dilation_h, p.pad_top};
}
inline Axis horizontal_axis(const Conv2dProblem& p) {
  return {p.w, p.out_w(), p.kernel_w, p.stride_w, p.dilation_w, p.pad_left};
}

// Writes bias (zero without one) padded to whole blocks; returns the end.
inline float* pack_bias(const Conv2dProblem& p, std::span<const Tensor> constants, float* out) {
  const int64_t block = p.target.block(), outputs = blocks_of(p.k, block) * block;
  for (int64_t k = 0; k < outputs; ++k) {
    out[k] = p.epilogue.bias && k < p.k ? constants[1].values<float>()[k] : 0;
  }
  return out + outputs;
}

// Runs the last part of a reduction: c is the offset of the tile in the output and in the residual.
inline void run_tile(const TileSet& set, Tile& tile, const Epilogue& e, const Args& args, int64_t c,
                     int rows, int vectors, bool finish) {
  const float* residual = e.residual ? static_cast<const float*>(args.inputs[1]) + c : nullptr;
  tile.c = static_cast<float*>(args.outputs[0]) + c;
  tile.residual = finish && e.residual_after_activation ? nullptr : residual;
  set.run[vectors][rows](tile);
  if (finish) set.finish(e, tile.c, tile.c_row, tile.c_vector, rows, vectors, residual);
}

}  // namespace stretto::kernels::conv2d
