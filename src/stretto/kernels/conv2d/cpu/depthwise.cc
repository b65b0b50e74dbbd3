// Depthwise convolution on the blocked layout, a vector of channels at a time. The usual geometries
// run as strips, which load each input vector once per kernel row; all others tap by tap.
//
// Order of work: channel block / rows of output whose input stays in L2 / strip. The limit is the
// multiply-add rate while the input is in L2, else the memory bandwidth.
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/strips.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

constexpr int64_t kMostTaps = 256;

Fit fits(const Conv2dProblem& p) {
  if (p.groups != p.c || p.k != p.c) return Fit::no("not depthwise");
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  if (static_cast<int64_t>(p.kernel_h) * p.kernel_w > kMostTaps) return Fit::no("kernel too large");
  const int64_t block = p.target.block();
  const double useful =
      static_cast<double>(p.c) / static_cast<double>(blocks_of(p.c, block) * block);
  const double taps = static_cast<double>(p.kernel_h) * p.kernel_w;
  return Fit::yes(0.8 * useful * taps / (taps + 4));
}

std::string packing(const Conv2dProblem& p) {
  return packing_text("conv2d_depthwise", 1, p.target.block());
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

// Any geometry, tap by tap.
void run_tiles(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const TileSet& set = tile_set(p.target.isa);
  const Axis vertical = vertical_axis(p), horizontal = horizontal_axis(p);
  const int64_t block = p.target.block(), blocks = blocks_of(p.c, block);
  const int64_t out_h = vertical.out, out_w = horizontal.out;
  const float* x = static_cast<const float*>(args.inputs[0]);
  float* y_out = static_cast<float*>(args.outputs[0]);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + blocks * block;
  const int64_t taps_count = static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  const bool finish = !tile_applies(p.epilogue.activation);

  Tile tile;
  Tap taps[kMostTaps];
  tile.taps = taps;
  set_epilogue(tile, p.epilogue);
  const GridPart grid = split_grid(out_h, p.n * blocks, worker, 0, 1);
  const EvenTiles row_blocks(grid.rows.end - grid.rows.begin, kStripRows);
  for (int64_t plane = grid.columns.begin; plane < grid.columns.end; ++plane) {
    const float* in = x + plane * p.h * p.w * block;
    const int64_t out = plane * out_h * out_w * block;
    tile.b = weights + plane % blocks * taps_count * block;
    tile.bias = bias + plane % blocks * block;
    for (int64_t rows = 0; rows < row_blocks.tiles; ++rows) {
      for_patches(
          vertical, horizontal, grid.rows.begin + row_blocks.begin(rows),
          grid.rows.begin + row_blocks.begin(rows + 1), [&](const Patch& patch) {
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
              tile.a =
                  in + ((y * p.stride_h - p.pad_top) * p.w + x0 * p.stride_w - p.pad_left) * block;
              const int64_t c = out + (y * out_w + x0) * block;
              const float* residual =
                  p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) + c : nullptr;
              tile.c = y_out + c;
              tile.residual = finish && p.epilogue.residual_after_activation ? nullptr : residual;
              set.run_lanes[pixels](tile);
              if (finish) set.finish(p.epilogue, tile.c, tile.c_row, 0, pixels, 1, residual);
            });
          });
    }
  }
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Isa isa = p.target.isa;
  if (!suits_strips(p) || depthwise_strip(isa, p.kernel_h, p.stride_h, 1) == nullptr) {
    run_tiles(p, args, worker);
    return;
  }
  run_strips(p, args, worker, p.kernel_h * p.kernel_w * p.target.block(),
             depthwise_strip_columns(isa),
             [&](int columns) { return depthwise_strip(isa, p.kernel_h, p.stride_h, columns); });
}

}  // namespace

const Row kDepthwise{.name = "depthwise",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .packing = packing,
                     .scratch_bytes = nullptr,
                     .run = run};

}  // namespace stretto::kernels::conv2d
