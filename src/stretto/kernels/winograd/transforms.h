// Input and output transforms of the schemes on the blocked layout, one vector of channels at a
// time.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"
#include "stretto/kernels/epilogue.h"
#include "stretto/kernels/winograd/scheme.h"

namespace stretto::kernels::winograd {

// Tiles [first, first + count) of a batch of maps, row by row: tile t lies in image t / (tiles_y *
// tiles_x). Strides in elements.
struct Tiles {
  int64_t tiles_y, tiles_x, first, count;
};

// `blocks` channel blocks of the input; v[product][tile][block] vectors at v + product * plane +
// tile * row + block * lanes. All blocks of a tile are done together because their vectors share
// cache lines.
struct InputJob {
  const float* x;
  int64_t image, block;  // from image to image, from channel block to block
  int64_t blocks;
  int64_t h, w, pad_top, pad_left;
  Tiles tiles;
  float* v;
  int64_t plane, row;
  bool far;  // x lies beyond L2
};

// One channel block and phase of the output, y and residual (null: none) pointing at its first
// element; sums m[target][tile] at m + target * plane + tile * row. Applies bias (a vector),
// residual and activation.
struct OutputJob {
  const float* m;
  int64_t plane, row;
  float* y;
  const float* residual;
  const float* bias;
  int64_t image, line;  // from image to image, and from output row to row of the scheme's phase
  int64_t h, w;         // of the phase
  Tiles tiles;
  bool far;  // y lies beyond L2
};

struct Transforms {
  void (*input)(const InputJob&);
  void (*output)(const OutputJob&, const Epilogue&);
};
const Transforms& transforms(Isa isa, const Scheme& scheme);

}  // namespace stretto::kernels::winograd
