// Driving strips over the planes of a convolution whose output block needs only the input block of
// the same index.
#pragma once

#include <limits>

#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/conv2d/cpu/strip.h"

namespace stretto::kernels::conv2d {

// Rows of output handled together: their input stays in L1 or L2 from one strip to the next.
constexpr int kStripRows = 14;

// Whether only the outermost positions of a strip can lie outside, as strips demand.
inline bool suits_strips(const Conv2dProblem& p) {
  return p.kernel_h == p.kernel_w && p.stride_h == p.stride_w && p.dilation_h == 1 &&
         p.dilation_w == 1 && p.pad_left < p.kernel_w && p.pad_right < p.kernel_w;
}

// Runs this worker's part. `packed` is bias [blocks][lanes], then `block_weights` values per block.
// kernel(columns) gives the strip for at most `most` columns.
template <typename Kernel>
void run_strips(const Conv2dProblem& p, const Args& args, const Worker& worker,
                int64_t block_weights, int most, Kernel&& kernel) {
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = p.target.block(), blocks = blocks_of(p.k, block);
  const int64_t out_h = p.out_h(), out_w = p.out_w();
  const float* x = static_cast<const float*>(args.inputs[0]);
  float* y = static_cast<float*>(args.outputs[0]);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + blocks * block;
  const Epilogue& e = p.epilogue;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool in_strip = !e.residual && tile_applies(e.activation);
  Strip strip{.in_row = p.w * block,
              .in_h = p.h,
              .pad_top = p.pad_top,
              .out_row = out_w * block,
              .kernel_h = p.kernel_h,
              .kernel_w = p.kernel_w,
              .stride_h = p.stride_h,
              .dilation_h = p.dilation_h,
              .dilation_w = p.dilation_w,
              .lo = -kInfinity,
              .hi = kInfinity};
  if (in_strip && e.activation == Activation::kRelu) strip.lo = 0;
  if (in_strip && e.activation == Activation::kClip) {
    strip.lo = e.alpha;
    strip.hi = e.beta;
  }
  // Maps of a few pixels use each weight so briefly that nothing else has them in time: those of
  // the next block are fetched ahead, where an eighth is used, and up to a third of L1. 768
  // channels of 7x7 on 7x7 then take 0.61 of the time (Zen 5, AVX-512, cold weights).
  constexpr int64_t kLine = 16, kMostFetched = 4096;
  const bool fetches = 8 * vertical_axis(p).taps_seen() * horizontal_axis(p).taps_seen() >=
                       static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  const EvenTiles columns(out_w, most);
  const GridPart grid = split_grid(out_h, p.n * blocks, worker, 0, 1);
  const EvenTiles row_blocks(grid.rows.end - grid.rows.begin, kStripRows);
  for (int64_t plane = grid.columns.begin; plane < grid.columns.end; ++plane) {
    const float* in = x + plane * p.h * p.w * block;
    strip.weights = weights + plane % blocks * block_weights;
    strip.bias = bias + plane % blocks * block;
    if (fetches && plane + 1 < std::min(grid.columns.end, grid.columns.begin + blocks)) {
      const float* next = weights + (plane + 1) % blocks * block_weights;
      for (int64_t i = 0; i < std::min(block_weights, kMostFetched); i += kLine) {
        __builtin_prefetch(next + i, 0, 3);
      }
    }
    for (int64_t rows = 0; rows < row_blocks.tiles; ++rows) {
      strip.y_begin = grid.rows.begin + row_blocks.begin(rows);
      strip.y_end = grid.rows.begin + row_blocks.begin(rows + 1);
      const int64_t out = (plane * out_h + strip.y_begin) * out_w * block;
      for (int64_t column = 0; column < columns.tiles; ++column) {
        const int64_t x0 = columns.begin(column), left = x0 * p.stride_w - p.pad_left;
        strip.in = in + left * block;
        strip.first = -left;
        strip.last = p.w - left;
        strip.out = y + out + x0 * block;
        kernel(static_cast<int>(columns.begin(column + 1) - x0))(strip);
      }
      if (in_strip) continue;
      const int64_t count = (strip.y_end - strip.y_begin) * out_w * block;
      const float* residual =
          e.residual ? static_cast<const float*>(args.inputs[1]) + out : nullptr;
      set.finish_flat(e, y + out, count, residual);
    }
  }
}

}  // namespace stretto::kernels::conv2d
