// Pointwise convolution as a matrix product on the blocked layout: pixels x channels times channels
// x outputs. Rows of A are pixels (a vector of channels each), so nothing is rearranged at run
// time.
//
// Order of work: a block of pixels that fits L2 / panel of weights / part of its channels (reused
// by every tile of the block) / tile; sums of all parts but the last wait in the output. A part and
// the pixel block stay in L2 (a tile needs 192 B of weights per 14 cycles), so the limit is the
// multiply-add rate; with few pixels it is the stream of weights from memory.
#include <algorithm>

#include "stretto/base/cpu.h"
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels::conv2d {
namespace {

// Strides in elements. A batch of 1x1 maps is one image whose pixels are the batch.
struct Plan {
  int64_t images, pixels, in_blocks, out_blocks;
  int64_t in_image, in_pixel, in_block;
  int64_t out_image, out_pixel, out_block;
  Panels panels;
};

Plan make_plan(const Conv2dProblem& p) {
  const int64_t block = p.target.block(), plane = p.out_h() * p.out_w();
  const int64_t in_blocks = blocks_of(p.c, block), out_blocks = blocks_of(p.k, block);
  Plan plan{.images = p.n,
            .pixels = plane,
            .in_blocks = in_blocks,
            .out_blocks = out_blocks,
            .in_image = in_blocks * plane * block,
            .in_pixel = block,
            .in_block = plane * block,
            .out_image = out_blocks * plane * block,
            .out_pixel = block,
            .out_block = plane * block,
            .panels = {0, 1, 1}};
  if (plane == 1) {
    plan.images = 1;
    plan.pixels = p.n;
    plan.in_pixel = plan.in_image;
    plan.out_pixel = plan.out_image;
  }
  // With 16 registers, tiles of 4 pixels x 3 vectors make ResNet-50 1 % slower than 6 x 2.
  const TileSet& set = tile_set(p.target.isa);
  const auto choose = set.max_rows[3] >= 8 ? choose_wide_panels : choose_panels;
  plan.panels = choose(p.target, out_blocks, plan.pixels, p.target.threads);
  return plan;
}

// Splits the channels, each with `group` values of weights. Only the operator before reads the
// first weights ahead, as far as its own parts go.
EvenTiles parts_of(const Plan& plan, int64_t group) {
  const int64_t most = cpu_info().l2_bytes / 32 / static_cast<int64_t>(sizeof(float));
  return {plan.in_blocks, static_cast<int>(std::max<int64_t>(1, most / group))};
}

// Pixels of output whose input stays in L2 from panel to panel.
int64_t pixels_in_l2(const Plan& plan, int64_t block) {
  const int64_t pixel_bytes = std::max<int64_t>(plan.in_blocks * block * 4, 1);
  return std::clamp<int64_t>(cpu_info().l2_bytes / 2 / pixel_bytes, TileSet::kMaxRows, 1 << 20);
}

double cycles(const Conv2dProblem& p, const Plan& plan) {
  constexpr double kStart = 19;
  constexpr double kGather = 6;  // a vector
  const double exposed = plan.pixels <= kStreamingRows ? 0 : 0.3;
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = p.target.block();
  TileWork work;
  add_panels(work, set, plan.panels, 1, plan.pixels, static_cast<double>(p.c),
             [&](int v) { return parts_of(plan, v * block * block).tiles; });
  const ShareSize share = largest_share(plan.images * plan.pixels, plan.panels.count,
                                        p.target.threads, plan.images * plan.in_image, p.c * p.k);
  const int64_t chunks = (plan.pixels + pixels_in_l2(plan, block) - 1) / pixels_in_l2(plan, block);
  const auto images = static_cast<double>(plan.images);
  const WeightWork weights{.bytes = static_cast<double>(p.c * plan.out_blocks * block * 4),
                           .part = share.of_columns,
                           .passes = share.passes(images * static_cast<double>(chunks)),
                           .exposed = exposed};
  const double gathered =
      gathers(p) ? static_cast<double>(p.n * plan.in_blocks * p.out_h() * p.out_w()) : 0;
  return run_cycles(p.target, images * tile_cycles(work, kStart, p.epilogue) * share.of_all,
                    weights) +
         kGather * gathered / p.target.threads;
}

Fit fits(const Conv2dProblem& p) {
  if (p.kernel_h != 1 || p.kernel_w != 1) return Fit::no("kernel is not 1x1");
  if (p.pad_top | p.pad_left | p.pad_bottom | p.pad_right) return Fit::no("padded");
  if (p.groups != 1) return Fit::no("grouped");
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  return Fit::yes(expected_share(p.target, problem_flops(p), cycles(p, make_plan(p))));
}

std::string packing(const Conv2dProblem& p) {
  return packing_text("conv2d_1x1", 1, p.target.block(), make_plan(p).panels.count);
}

size_t packed_bytes(const Conv2dProblem& p) {
  const int64_t block = p.target.block();
  const int64_t outputs = blocks_of(p.k, block) * block;
  return static_cast<size_t>(outputs * (p.c + 1)) * sizeof(float);
}

// bias [outputs], then per panel [c][panel outputs].
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  const int64_t block = p.target.block();
  float* out = reinterpret_cast<float*>(packed);
  out = pack_bias(p, constants, out);
  const auto weight = constants[0].values<float>();
  for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
    const int64_t k0 = plan.panels.begin(panel) * block;
    const int64_t width = plan.panels.vectors(panel) * block;
    for (int64_t c = 0; c < p.c; ++c) {
      for (int64_t j = 0; j < width; ++j) *out++ = k0 + j < p.k ? weight[(k0 + j) * p.c + c] : 0;
    }
  }
}

size_t scratch_bytes(const Conv2dProblem& p) {
  if (!gathers(p)) return 0;
  const int64_t block = p.target.block();
  return static_cast<size_t>(p.n * blocks_of(p.c, block) * block * p.out_h() * p.out_w()) *
         sizeof(float);
}

// Strided problems become dense ones: copies the pixels that count to x'
// [n][blocks][out_h][out_w][block].
void gather(const Conv2dProblem& p, const float* x, float* to, const Worker& worker) {
  const int64_t block = p.target.block(), rows = p.out_h(), columns = p.out_w();
  const Range range = split(p.n * blocks_of(p.c, block) * rows, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t plane = i / rows, y = i % rows;
    gather_pixels(p, x + plane * p.h * p.w * block, y * columns, columns, to + i * columns * block);
  }
}

int phases(const Conv2dProblem& p) { return gathers(p) ? 2 : 1; }

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = p.target.block();
  const float* x = static_cast<const float*>(args.inputs[0]);
  if (gathers(p)) {
    if (worker.phase == 0) return gather(p, x, reinterpret_cast<float*>(args.scratch), worker);
    x = reinterpret_cast<const float*>(args.scratch);
  }
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + plan.out_blocks * block;

  Tile tile;
  tile.taps = &kNoTap;
  tile.a_row = plan.in_pixel;
  tile.a_group = plan.in_block;
  tile.steps = static_cast<int32_t>(block);
  tile.c_row = plan.out_pixel;
  tile.c_vector = plan.out_block;
  tile.far_results = beyond_l2(plan.images * plan.out_image / worker.count);

  const GridPart grid = split_grid(plan.images * plan.pixels, plan.panels.count, worker,
                                   plan.images * plan.in_image, p.c * p.k);
  const int64_t l2_pixels = pixels_in_l2(plan, block);
  for (int64_t at = grid.rows.begin; at < grid.rows.end;) {
    const int64_t image = at / plan.pixels, first = at % plan.pixels;
    const int64_t count = std::min(plan.pixels - first, grid.rows.end - at);
    const EvenTiles chunks(count, static_cast<int>(l2_pixels));
    for (int64_t chunk = 0; chunk < chunks.tiles; ++chunk) {
      const int64_t begin = first + chunks.begin(chunk), end = first + chunks.begin(chunk + 1);
      for (int64_t panel = grid.columns.begin; panel < grid.columns.end; ++panel) {
        const int64_t k_block = plan.panels.begin(panel);
        const int vectors = static_cast<int>(plan.panels.vectors(panel));
        const float* panel_weights = weights + k_block * block * p.c;
        tile.b_group = vectors * block * block;
        tile.bias = bias + k_block * block;
        const EvenTiles tiles(end - begin, set.max_rows[vectors]);
        const EvenTiles parts = parts_of(plan, tile.b_group);
        for (int64_t part = 0; part < parts.tiles; ++part) {
          const int64_t c_block = parts.begin(part), c_end = parts.begin(part + 1);
          const int64_t channels = std::min(c_end * block, p.c) - c_block * block;
          const int64_t values = channels * vectors * block;
          tile.b = panel_weights + c_block * tile.b_group;
          tile.groups = static_cast<int32_t>(c_end - c_block);
          tile.last_steps = static_cast<int32_t>(channels - (tile.groups - 1) * block);
          for (int64_t t = 0; t < tiles.tiles; ++t) {
            const int64_t pixel = begin + tiles.begin(t);
            const int rows = static_cast<int>(begin + tiles.begin(t + 1) - pixel);
            tile.a = x + image * plan.in_image + pixel * plan.in_pixel + c_block * plan.in_block;
            set_prefetch(tile, tile.b + values, values, t, tiles.tiles, end - begin);
            const int64_t c =
                image * plan.out_image + k_block * plan.out_block + pixel * plan.out_pixel;
            run_tile(set, tile, p.epilogue, args, c, rows, vectors,
                     {part == 0, part + 1 == parts.tiles});
          }
        }
      }
    }
    at += count;
  }
}

}  // namespace

const Row kGemm1x1{.name = "gemm_1x1",
                   .fits = fits,
                   .packed_bytes = packed_bytes,
                   .pack = pack,
                   .packing = packing,
                   .scratch_bytes = scratch_bytes,
                   .in_place = over_residual,
                   .phases = phases,
                   .run = run};

}  // namespace stretto::kernels::conv2d
