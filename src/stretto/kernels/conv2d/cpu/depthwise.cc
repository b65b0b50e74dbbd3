// Depthwise convolution on the blocked layout, a vector of channels at a time: neighbouring output
// pixels share each weight vector, input vectors come straight from L1. Any kernel, stride, dilation.
//
// Order of work: channel block / rows of output whose input stays in L2 / tile. The limit is one load
// per multiply-add (both at two vectors a cycle) while the input is in L2, else the memory bandwidth.
#include <limits>

#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/conv2d/cpu/depthwise_strip.h"

namespace stretto::kernels::conv2d {
namespace {

constexpr int64_t kMostTaps = 256;
// Rows handled together, so that the tiles that run down the left and right edge are full ones.
constexpr int kBlockRows = TileSet::kMaxRows;

Fit fits(const Conv2dProblem& p) {
  if (p.groups != p.c || p.k != p.c) return Fit::no("not depthwise");
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  if (static_cast<int64_t>(p.kernel_h) * p.kernel_w > kMostTaps) return Fit::no("kernel too large");
  const int64_t block = p.target.block();
  const double useful = static_cast<double>(p.c) / static_cast<double>(blocks_of(p.c, block) * block);
  const double taps = static_cast<double>(p.kernel_h) * p.kernel_w;
  return Fit::yes(0.8 * useful * taps / (taps + 4));
}

size_t packed_bytes(const Conv2dProblem& p) {
  const int64_t block = p.target.block();
  return static_cast<size_t>(blocks_of(p.c, block) * block * (p.kernel_h * p.kernel_w + 1)) *
         sizeof(float);
}

// bias [channels], then [channel block][tap][lane].
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const int64_t block = p.target.block(), taps = static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  float* out = pack_bias(p, constants, reinterpret_cast<float*>(packed));
  const auto weight = constants[0].values<float>();
  for (int64_t c0 = 0; c0 < p.c; c0 += block) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = c0; c < c0 + block; ++c) *out++ = c < p.c ? weight[c * taps + tap] : 0;
    }
  }
}

// Common geometry: square kernel, equal strides, no dilation. Borders wider than the kernel go the
// general way, because only the outermost positions of a strip are tested.
bool has_strips(const Conv2dProblem& p) {
  return p.kernel_h == p.kernel_w && p.stride_h == p.stride_w && p.dilation_h == 1 &&
         p.dilation_w == 1 && p.pad_left < p.kernel_w && p.pad_right < p.kernel_w &&
         strip_kernel(p.target.isa, p.kernel_h, p.stride_h, 1) != nullptr;
}

// What all threads of a run agree on.
struct Setup {
  Axis vertical, horizontal;
  int64_t block, blocks;
  const float* x;
  const float* residual;
  float* y;
  const float* bias;
  const float* weights;
};

void run_strips(const Conv2dProblem& p, const Setup& s, const Range& rows, const Range& planes) {
  const TileSet& set = tile_set(p.target.isa);
  const int64_t out_h = s.vertical.out, out_w = s.horizontal.out;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Activation activation = p.epilogue.activation;
  const bool in_strip = !p.epilogue.residual && tile_applies(activation);
  Strip strip{.in_row = p.w * s.block, .in_h = p.h, .pad_top = p.pad_top,
              .out_row = out_w * s.block, .lo = -kInfinity, .hi = kInfinity};
  if (in_strip && activation == Activation::kRelu) strip.lo = 0;
  if (in_strip && activation == Activation::kClip) {
    strip.lo = p.epilogue.alpha;
    strip.hi = p.epilogue.beta;
  }
  const EvenTiles columns(out_w, strip_columns(p.target.isa));
  const EvenTiles row_blocks(rows.end - rows.begin, kBlockRows);
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    const float* in = s.x + plane * p.h * p.w * s.block;
    strip.weights = s.weights + plane % s.blocks * p.kernel_h * p.kernel_w * s.block;
    strip.bias = s.bias + plane % s.blocks * s.block;
    for (int64_t block = 0; block < row_blocks.tiles; ++block) {
      strip.y_begin = rows.begin + row_blocks.begin(block);
      strip.y_end = rows.begin + row_blocks.begin(block + 1);
      const int64_t out = (plane * out_h + strip.y_begin) * out_w * s.block;
      for (int64_t column = 0; column < columns.tiles; ++column) {
        const int64_t x0 = columns.begin(column), x_end = columns.begin(column + 1);
        const int64_t left = x0 * p.stride_w - p.pad_left;
        strip.in = in + left * s.block;
        strip.first = -left;
        strip.last = p.w - left;
        strip.out = s.y + out + x0 * s.block;
        strip_kernel(p.target.isa, p.kernel_h, p.stride_h, static_cast<int>(x_end - x0))(strip);
      }
      if (in_strip) continue;
      const int64_t pixels = (strip.y_end - strip.y_begin) * out_w;
      set.finish_flat(p.epilogue, s.y + out, pixels * s.block, s.residual ? s.residual + out : nullptr);
    }
  }
}

void run_tiles(const Conv2dProblem& p, const Setup& s, const Range& row_range, const Range& planes) {
  const TileSet& set = tile_set(p.target.isa);
  const int64_t out_h = s.vertical.out, out_w = s.horizontal.out, block = s.block;
  const int64_t taps_count = static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  const bool finish = !tile_applies(p.epilogue.activation);

  Tile tile;
  Tap taps[kMostTaps];
  tile.taps = taps;
  set_epilogue(tile, p.epilogue);
  const EvenTiles row_blocks(row_range.end - row_range.begin, kBlockRows);
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    const float* in = s.x + plane * p.h * p.w * block;
    const int64_t out = plane * out_h * out_w * block;
    tile.b = s.weights + plane % s.blocks * taps_count * block;
    tile.bias = s.bias + plane % s.blocks * block;
    for (int64_t rows = 0; rows < row_blocks.tiles; ++rows) {
      for_patches(s.vertical, s.horizontal, row_range.begin + row_blocks.begin(rows),
                  row_range.begin + row_blocks.begin(rows + 1), [&](const Patch& patch) {
        tile.tap_count = 0;
        for (int64_t r = patch.r; r < patch.r_end; ++r) {
          for (int64_t q = patch.s; q < patch.s_end; ++q) {
            taps[tile.tap_count++] = {(r * p.dilation_h * p.w + q * p.dilation_w) * block,
                                      (r * p.kernel_w + q) * block};
          }
        }
        const PatchTiles tiles(patch, set.max_rows[1]);
        tile.a_row = (tiles.down ? p.stride_h * p.w : p.stride_w) * block;
        tile.c_row = (tiles.down ? out_w : 1) * block;
        tiles.for_each(patch, [&](int64_t y, int64_t x0, int pixels) {
          tile.a = in + ((y * p.stride_h - p.pad_top) * p.w + x0 * p.stride_w - p.pad_left) * block;
          const int64_t c = out + (y * out_w + x0) * block;
          const float* residual = s.residual ? s.residual + c : nullptr;
          tile.c = s.y + c;
          tile.residual = finish && p.epilogue.residual_after_activation ? nullptr : residual;
          set.run_lanes[pixels](tile);
          if (finish) set.finish(p.epilogue, tile.c, tile.c_row, 0, pixels, 1, residual);
        });
      });
    }
  }
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const int64_t block = p.target.block(), blocks = blocks_of(p.c, block);
  const float* packed = reinterpret_cast<const float*>(args.packed);
  const Setup setup{.vertical = vertical_axis(p), .horizontal = horizontal_axis(p),
                    .block = block, .blocks = blocks,
                    .x = static_cast<const float*>(args.inputs[0]),
                    .residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr,
                    .y = static_cast<float*>(args.outputs[0]),
                    .bias = packed, .weights = packed + blocks * block};
  const GridPart grid = split_grid(setup.vertical.out, p.n * blocks, worker, 0, 1);
  if (has_strips(p)) {
    run_strips(p, setup, grid.rows, grid.columns);
  } else {
    run_tiles(p, setup, grid.rows, grid.columns);
  }
}

}  // namespace

const Row kDepthwise{.name = "depthwise",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .scratch_bytes = nullptr,
                     .run = run};

}  // namespace stretto::kernels::conv2d
