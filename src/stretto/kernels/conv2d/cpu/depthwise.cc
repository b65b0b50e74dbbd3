// Depthwise convolution on the blocked layout, a vector of channels at a time. Most geometries run
// as strips, the usual ones as strips that load each input vector once per kernel row; few run tap
// by tap in tiles.
//
// Order of work: channel block / rows of output whose input stays in L2 / strip. The limit is the
// multiply-add rate while the input is in L2, else the memory bandwidth.
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/strips.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

constexpr int64_t kMostTaps = 256;  // of tiles

enum class Way { kUsualStrips, kAnyStrips, kTiles };

// What tiles do better: columns, whose strips would be too narrow to keep the multipliers busy;
// kernels of which hardly a tap is inside; and those of one row that wait for maps from memory,
// which tiles read in order, or for a residual, which strips add afterwards.
bool suits_tiles(const Conv2dProblem& p) {
  const int64_t seen = vertical_axis(p).taps_seen() * horizontal_axis(p).taps_seen();
  const int64_t taps = static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  if (taps > kMostTaps) return false;
  if (8 * p.out_w() < p.out_h() || 8 * seen < taps) return true;
  const bool far = p.n * p.c * p.h * p.w * 8 > cpu_info().l3_bytes / 2;
  return p.kernel_h == 1 && (far || p.epilogue.residual);
}

Way way_of(const Conv2dProblem& p) {
  if (suits_strips(p) && depthwise_strip(p.target.isa, p.kernel_h, p.stride_h, 1) != nullptr) {
    return Way::kUsualStrips;
  }
  const bool strips = any_depthwise_strip(p.target.isa, p.stride_w, 1) != nullptr;
  return strips && !suits_tiles(p) ? Way::kAnyStrips : Way::kTiles;
}

// Strips of one plane: a vector of channels of an image.
double strip_cycles(const Conv2dProblem& p, bool usual) {
  constexpr double kStart = 44, kLook = 2.4, kResidual = 3.5;  // kLook: which taps are inside
  // Multiply-adds that a core has in flight: short rows of sums wait for each other less when those
  // of the next output row are among them.
  constexpr double kInFlight = 370;
  const Axis vertical = vertical_axis(p), horizontal = horizontal_axis(p);
  int64_t rows = 0;  // kernel rows for all output rows
  for (int64_t y = 0; y < vertical.out; ++y) {
    rows += std::max<int64_t>(vertical.last(y) - vertical.first(y), 0);
  }
  const double rows_per_line = static_cast<double>(rows) / static_cast<double>(vertical.out);
  const Isa isa = p.target.isa;
  const EvenTiles columns(horizontal.out,
                          usual ? depthwise_strip_columns(isa) : any_depthwise_strip_columns(isa));
  const int64_t together = usual ? p.kernel_w : any_strip_taps(p.stride_w, p.dilation_w);
  double row = 0;  // of the kernel, for all columns
  for (int64_t column = 0; column < columns.tiles; ++column) {
    const int64_t begin = columns.begin(column), end = columns.begin(column + 1);
    int64_t sums = 0, first = p.kernel_w, last = 0;
    for (int64_t x = begin; x < end; ++x) {
      sums += std::max<int64_t>(horizontal.last(x) - horizontal.first(x), 0);
      first = std::min(first, horizontal.first(x));
      last = std::max(last, horizontal.last(x));
    }
    const int64_t taps = usual ? p.kernel_w : std::max<int64_t>(last - first, 0);
    const int64_t span = (end - begin - 1) * p.stride_w;
    const int64_t loads = together == 1 ? sums + taps
                                        : taps / together * (2 * together + span) +
                                              taps % together * (end - begin + 1);
    const double ahead =
        std::max(1.0, kInFlight / std::max(1.0, rows_per_line * static_cast<double>(sums + taps)));
    row += std::max(static_cast<double>(std::max(sums, loads)) / 2,
                    kLatency * static_cast<double>(taps) / ahead);
    if (!usual) row += kLook * static_cast<double>(p.kernel_w / together + p.kernel_w % together);
  }
  const TileWork work{
      .starts = static_cast<double>(EvenTiles(vertical.out, kStripRows).tiles * columns.tiles),
      .steps = row * static_cast<double>(rows),
      .results = static_cast<double>(vertical.out * horizontal.out)};
  const bool adds = p.epilogue.residual && tile_applies(p.epilogue.activation);
  return tile_cycles(work, kStart, p.epilogue) + (adds ? kResidual * work.results : 0);
}

// Likewise tiles.
double tiles_cycles(const Conv2dProblem& p) {
  constexpr double kStart = 40, kTap = 3;
  TileWork work;
  double taps = 0;
  const int most = tile_set(p.target.isa).max_rows[1];
  add_tiles(work, vertical_axis(p), horizontal_axis(p), most, 1, 1, 1, [&](const Patch& patch) {
    const PatchTiles cut(patch, most);
    const auto seen = static_cast<double>(patch.taps_down() * patch.taps_across());
    taps += seen * static_cast<double>(cut.lines * cut.tiles.tiles);
    return seen;
  });
  return tile_cycles(work, kStart, p.epilogue) + kTap * taps;
}

double cycles(const Conv2dProblem& p) {
  const Way way = way_of(p);
  const int64_t block = p.target.block(), blocks = blocks_of(p.c, block);
  const ShareSize share = largest_share(p.out_h(), p.n * blocks, p.target.threads, 0, 1);
  const double plane =
      way == Way::kTiles ? tiles_cycles(p) : strip_cycles(p, way == Way::kUsualStrips);
  const int64_t down = vertical_axis(p).taps_seen();
  const int64_t across = way == Way::kUsualStrips ? p.kernel_w : horizontal_axis(p).taps_seen();
  const int64_t pieces = across < p.kernel_w ? down : down < p.kernel_h ? 1 : 0;  // of a block
  const int64_t outputs = (p.epilogue.residual ? 2 : 1) * p.out_h() * p.out_w();
  const double maps = static_cast<double>(p.n * blocks * block * (p.h * p.w + outputs) * 4);
  // Tiles go along rows as they lie in memory.
  const double exposed = way == Way::kTiles ? 0.5 : 1;
  const double compute = static_cast<double>(p.n * blocks) * plane * share.of_all +
                         exposed * map_cycles(p.target, maps, share.of_all);
  return run_cycles(p.target, compute,
                    {.bytes = static_cast<double>(blocks * block * down * across * 4),
                     .pieces = static_cast<double>(blocks * pieces),
                     .part = share.of_columns});
}

Fit fits(const Conv2dProblem& p) {
  if (p.groups != p.c || p.k != p.c) return Fit::no("not depthwise");
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  if (way_of(p) == Way::kTiles && static_cast<int64_t>(p.kernel_h) * p.kernel_w > kMostTaps) {
    return Fit::no("kernel too large");
  }
  if (p.n == 0 || p.out_h() <= 0 || p.out_w() <= 0) return Fit::yes(1);
  return Fit::yes(expected_share(p.target, problem_flops(p), cycles(p)));
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
  const int64_t weights = p.kernel_h * p.kernel_w * p.target.block();
  switch (way_of(p)) {
    case Way::kUsualStrips:
      run_strips(p, args, worker, weights, depthwise_strip_columns(isa), [&](int columns) {
        return depthwise_strip(isa, p.kernel_h, p.stride_h, columns);
      });
      break;
    case Way::kAnyStrips:
      run_strips(p, args, worker, weights, any_depthwise_strip_columns(isa),
                 [&](int columns) { return any_depthwise_strip(isa, p.stride_w, columns); });
      break;
    case Way::kTiles:
      run_tiles(p, args, worker);
      break;
  }
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
