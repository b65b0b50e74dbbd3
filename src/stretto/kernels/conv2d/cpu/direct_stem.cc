// Direct convolution from a plain input to a blocked output, made for the first layer of a network,
// whose 1 to 4 channels cannot fill a block. Neighbouring taps of a kernel row are neighbours in
// memory, so a kernel row is one run of the register tile's reduction.
//
// Order of work: rows of output / panel of weights (in L1 for few channels) / tile. The limit is
// the multiply-add rate; short kernel rows cost some of it.
#include <algorithm>

#include "stretto/base/cpu.h"
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

constexpr int64_t kMostRuns = 128;

struct Plan {
  int64_t block, taps, out_blocks;
  Panels panels;
  Axis vertical, horizontal;
};

// Without dilation a kernel row is one run, with it every tap is one.
bool runs_are_rows(const Conv2dProblem& p) { return p.dilation_w == 1; }

Plan make_plan(const Conv2dProblem& p) {
  const int64_t block = p.target.block(), out_blocks = blocks_of(p.k, block);
  Plan plan{.block = block,
            .taps = static_cast<int64_t>(p.kernel_h) * p.kernel_w,
            .out_blocks = out_blocks,
            .panels = {0, 1, 1},
            .vertical = vertical_axis(p),
            .horizontal = horizontal_axis(p)};
  const int64_t longest = std::max(plan.horizontal.longest_run(), plan.vertical.longest_run());
  plan.panels = choose_panels(p.target, out_blocks, longest);
  return plan;
}

// Rows of output whose input stays in L2 from panel to panel.
int64_t rows_in_l2(const Conv2dProblem& p) {
  const int64_t row_bytes = std::max<int64_t>(p.stride_h * p.w * p.c * 4, 1);
  return std::clamp<int64_t>(cpu_info().l2_bytes / 4 / row_bytes, 4, 1 << 20);
}

double cycles(const Conv2dProblem& p, const Plan& plan) {
  constexpr double kStart = 22, kRun = 1;  // of a run of taps
  const TileSet& set = tile_set(p.target.isa);
  const auto channels = static_cast<double>(p.c);
  TileWork work;
  double runs = 0;
  for (int v = 1; v <= TileSet::kMaxVectors; ++v) {
    const auto panels = static_cast<double>(plan.panels.of_width(v));
    if (panels == 0) continue;
    add_tiles(work, plan.vertical, plan.horizontal, set.max_rows[v], panels, v, 1,
              [&](const Patch& patch) {
                const PatchTiles cut(patch, set.max_rows[v]);
                const int64_t across = runs_are_rows(p) ? 1 : patch.taps_across();
                runs +=
                    panels * channels *
                    static_cast<double>(cut.lines * cut.tiles.tiles * patch.taps_down() * across);
                return channels * static_cast<double>(patch.taps_down() * patch.taps_across());
              });
  }
  const ShareSize share =
      largest_share(p.n * plan.vertical.out, plan.panels.count, p.target.threads,
                    p.n * p.c * p.h * p.w, p.c * plan.taps * p.k);
  const auto seen = static_cast<double>(plan.vertical.taps_seen() * plan.horizontal.taps_seen());
  const int64_t bands = (plan.vertical.out + rows_in_l2(p) - 1) / rows_in_l2(p);
  const WeightWork weights{
      .bytes = channels * seen * static_cast<double>(plan.out_blocks * plan.block * 4),
      .pieces = channels *
                static_cast<double>(plan.panels.count * tap_gaps(plan.vertical, plan.horizontal)),
      .part = share.of_columns,
      .passes = share.passes(static_cast<double>(p.n * bands))};
  const double image = tile_cycles(work, kStart, p.epilogue) + kRun * runs;
  return run_cycles(p.target, static_cast<double>(p.n) * image * share.of_all, weights);
}

Fit fits(const Conv2dProblem& p) {
  if (p.x_layout != Layout::kPlain) return Fit::no("input is not plain");
  if (p.y_layout != Layout::kBlocked) return Fit::no("needs a blocked output");
  if (p.groups != 1) return Fit::no("grouped");
  if (int64_t{p.kernel_h} * (runs_are_rows(p) ? 1 : p.kernel_w) > kMostRuns) {
    return Fit::no("kernel too large");
  }
  return Fit::yes(expected_share(p.target, problem_flops(p), cycles(p, make_plan(p))));
}

std::string packing(const Conv2dProblem& p) {
  return packing_text("conv2d_stem", 1, p.target.block(), make_plan(p).panels.count);
}

size_t packed_bytes(const Conv2dProblem& p) {
  const Plan plan = make_plan(p);
  return static_cast<size_t>(plan.out_blocks * plan.block * (p.c * plan.taps + 1)) * sizeof(float);
}

// bias [outputs], then per panel [channel][tap][panel outputs].
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  float* out = pack_bias(p, constants, reinterpret_cast<float*>(packed));
  const auto weight = constants[0].values<float>();
  const int64_t depth = p.c * plan.taps;
  for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
    const int64_t k0 = plan.panels.begin(panel) * plan.block;
    const int64_t width = plan.panels.vectors(panel) * plan.block;
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t k = k0; k < k0 + width; ++k) *out++ = k < p.k ? weight[k * depth + i] : 0;
    }
  }
}

// The runs of taps that `patch` sees in one channel; sets their length.
void list_runs(const Conv2dProblem& p, const Patch& patch, int64_t width, Tap* taps, Tile& tile) {
  const bool whole_rows = runs_are_rows(p);
  tile.tap_count = 0;
  for (int64_t r = patch.r; r < patch.r_end; ++r) {
    for (int64_t s = patch.s; s < (whole_rows ? patch.s + 1 : patch.s_end); ++s) {
      taps[tile.tap_count++] = {r * p.dilation_h * p.w + s * p.dilation_w,
                                (r * p.kernel_w + s) * width};
    }
  }
  tile.steps = tile.last_steps = whole_rows ? static_cast<int32_t>(patch.s_end - patch.s) : 1;
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = plan.block, out_h = plan.vertical.out, out_w = plan.horizontal.out;
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + plan.out_blocks * block;
  const int64_t depth = p.c * plan.taps, out_plane = out_h * out_w * block;

  Tile tile;
  Tap taps[kMostRuns];
  tile.taps = taps;
  tile.a_group = p.h * p.w;
  tile.groups = static_cast<int32_t>(p.c);
  tile.c_vector = out_plane;
  const GridPart grid =
      split_grid(p.n * out_h, plan.panels.count, worker, p.n * p.c * p.h * p.w, depth * p.k);
  const int64_t block_rows = rows_in_l2(p);
  for (int64_t at = grid.rows.begin; at < grid.rows.end;) {
    const int64_t image = at / out_h, first = at % out_h;
    const int64_t count = std::min(out_h - first, grid.rows.end - at);
    const EvenTiles row_blocks(count, static_cast<int>(block_rows));
    const float* in = x + image * p.c * p.h * p.w;
    at += count;
    for (int64_t rows = 0; rows < row_blocks.tiles; ++rows) {
      for (int64_t panel = grid.columns.begin; panel < grid.columns.end; ++panel) {
        const int vectors = static_cast<int>(plan.panels.vectors(panel));
        const int64_t k_block = plan.panels.begin(panel);
        tile.b = weights + k_block * block * depth;
        tile.b_group = plan.taps * vectors * block;
        tile.bias = bias + k_block * block;
        for_patches(plan.vertical, plan.horizontal, first + row_blocks.begin(rows),
                    first + row_blocks.begin(rows + 1), [&](const Patch& patch) {
                      list_runs(p, patch, vectors * block, taps, tile);
                      const PatchTiles tiles(patch, set.max_rows[vectors]);
                      tile.a_row = tiles.down ? p.stride_h * p.w : p.stride_w;
                      tile.c_row = (tiles.down ? out_w : 1) * block;
                      tiles.for_each(patch, [&](int64_t y, int64_t x0, int pixels) {
                        tile.a =
                            in + (y * p.stride_h - p.pad_top) * p.w + x0 * p.stride_w - p.pad_left;
                        const int64_t c = (image * plan.out_blocks + k_block) * out_plane +
                                          (y * out_w + x0) * block;
                        run_tile(set, tile, p.epilogue, args, c, pixels, vectors);
                      });
                    });
      }
    }
  }
}

}  // namespace

const Row kDirectStem{.name = "direct_stem",
                      .fits = fits,
                      .packed_bytes = packed_bytes,
                      .pack = pack,
                      .packing = packing,
                      .scratch_bytes = nullptr,
                      .run = run};

}  // namespace stretto::kernels::conv2d
