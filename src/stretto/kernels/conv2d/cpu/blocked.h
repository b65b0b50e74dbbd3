// What the convolution rows on the blocked layout share.
#pragma once

#include <algorithm>
#include <cstring>
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

// Whether a pointwise convolution leaves out pixels of its input.
inline bool gathers(const Conv2dProblem& p) { return p.stride_h != 1 || p.stride_w != 1; }

template <int64_t kBlock>
void copy_pixels(const float* from, int64_t step, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * kBlock, from + i * step, kBlock * sizeof(float));
  }
}

// Copies the inputs of `count` pixels of a pointwise convolution's output, from pixel `first` on
// and of one block of channels, whose map is at `from`.
inline void gather_pixels(const Conv2dProblem& p, const float* from, int64_t first, int64_t count,
                          float* to) {
  const int64_t block = p.target.block(), width = p.out_w(), step = p.stride_w * block;
  const auto copy = block == 16 ? copy_pixels<16> : block == 8 ? copy_pixels<8> : copy_pixels<4>;
  for (int64_t done = 0; done < count;) {
    const int64_t y = (first + done) / width, x = (first + done) % width;
    const int64_t run = std::min(width - x, count - done);
    copy(from + (y * p.stride_h * p.w + x * p.stride_w) * block, step, to + done * block, run);
    done += run;
  }
}

// Which part of a reduction a tile computes; by default all of it.
struct Part {
  bool first = true, last = true;
};

// Runs a tile: c is its offset in the output and in the residual. The residual is read with the
// first part, so that the sum can lie where it lay, or after the activation with the last.
inline void run_tile(const TileSet& set, Tile& tile, const Epilogue& e, const Args& args, int64_t c,
                     int rows, int vectors, Part part = {}) {
  const float* residual = e.residual ? static_cast<const float*>(args.inputs[1]) + c : nullptr;
  const bool finish = part.last && !tile_applies(e.activation);
  const bool here = e.residual_after_activation ? part.last && !finish : part.first;
  tile.accumulate = !part.first;
  tile.relu = tile.clamp = false;
  if (part.last) set_epilogue(tile, e);
  tile.c = static_cast<float*>(args.outputs[0]) + c;
  tile.residual = here ? residual : nullptr;
  set.run[vectors][rows](tile);
  if (finish) set.finish(e, tile.c, tile.c_row, tile.c_vector, rows, vectors, residual);
}

// Candidate::in_place of rows that do everything by run_tile.
inline int over_residual(const Conv2dProblem& p) {
  return p.epilogue.residual && !p.epilogue.residual_after_activation ? 1 : -1;
}

}  // namespace stretto::kernels::conv2d
