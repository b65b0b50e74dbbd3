// Direct convolution on the blocked layout: a register tile of neighbouring output pixels x output
// channels, reduced over input channel blocks and taps without rearranging the input. Borders are
// tiles of their own with fewer taps; those of the left and right edge run down the columns.
//
// Order of work: rows of output whose input fits L2 / panel of weights / part of the input channels
// whose weights stay near / tile. Sums of all parts but the last wait in the output. The limit is
// the multiply-add rate.
//
// Groups that are no whole number of blocks (RegNet's have 24 channels) share blocks. There a panel
// is one block of output channels, and reduces over all input blocks of its groups, with zeros for
// weights between channels of different groups: 1.44 times the multiply-adds for groups of 24, 1.2
// times for 56. An infinity or NaN in one of a panel's groups reaches the others, as Winograd
// spreads it over a tile.
#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/base/cpu.h"
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

constexpr int64_t kMostTaps = 256;

struct Plan {
  int64_t block, taps;
  bool shared;              // blocks are shared by groups: then p is planned as one group
  int64_t groups;           // of panels
  int64_t in_blocks;        // most input blocks of a panel
  int64_t out_blocks;       // per group
  int64_t all_in, all_out;  // blocks of x and y
  Panels panels;            // of one group
  Axis vertical, horizontal;

  int64_t panel_step(int64_t vectors) const { return vectors * block * block * taps; }
};

// The input that a panel reduces over.
struct Reduction {
  int64_t block, blocks;  // first input block, and how many
  int64_t channels;       // from the first channel of the first block on
};

Reduction reduction(const Conv2dProblem& p, const Plan& plan, int64_t group, int64_t panel) {
  const int64_t inputs = p.c / p.groups, outputs = p.k / p.groups;
  if (!plan.shared) return {group * plan.in_blocks, plan.in_blocks, inputs};
  const int64_t first = panel * plan.block, last = std::min(first + plan.block, p.k) - 1;
  const int64_t block = first / outputs * inputs / plan.block;
  const int64_t channels = (last / outputs + 1) * inputs - block * plan.block;
  return {block, blocks_of(channels, plan.block), channels};
}

Plan make_plan(const Conv2dProblem& p) {
  const int64_t block = p.target.block();
  const bool shared = p.groups != 1 && (p.c / p.groups % block != 0 || p.k / p.groups % block != 0);
  const int64_t groups = shared ? 1 : p.groups;
  Plan plan{.block = block,
            .taps = static_cast<int64_t>(p.kernel_h) * p.kernel_w,
            .shared = shared,
            .groups = groups,
            .in_blocks = blocks_of(p.c / groups, block),
            .out_blocks = blocks_of(p.k / groups, block),
            .all_in = blocks_of(p.c / groups, block) * groups,
            .all_out = blocks_of(p.k / groups, block) * groups,
            .panels = {0, 1, 1},
            .vertical = vertical_axis(p),
            .horizontal = horizontal_axis(p)};
  const int64_t longest = std::max(plan.horizontal.longest_run(), plan.vertical.longest_run());
  if (!shared) {
    plan.panels = choose_panels(p.target, plan.out_blocks, longest, p.target.threads);
    return plan;
  }
  plan.panels = {plan.out_blocks, 1, 1};
  plan.in_blocks = 0;
  for (int64_t panel = 0; panel < plan.out_blocks; ++panel) {
    plan.in_blocks = std::max(plan.in_blocks, reduction(p, plan, 0, panel).blocks);
  }
  return plan;
}

// Rows of output whose input stays in L2 from panel to panel.
int64_t rows_in_l2(const Conv2dProblem& p, const Plan& plan) {
  const int64_t row_bytes = p.stride_h * p.w * plan.in_blocks * plan.block * 4;
  return std::clamp<int64_t>(cpu_info().l2_bytes / 2 / std::max<int64_t>(row_bytes, 1), 4, 1 << 20);
}

// Input blocks whose weights for a panel of so many vectors stay near.
int64_t blocks_of_part(const Plan& plan, int64_t vectors) {
  return std::max<int64_t>(1, cpu_info().l2_bytes / 32 / (plan.panel_step(vectors) * 4));
}

double cycles(const Conv2dProblem& p, const Plan& plan) {
  constexpr double kStart = 49;  // listing taps, patches of one pixel
  const TileSet& set = tile_set(p.target.isa);
  std::array<double, TileSet::kMaxVectors + 1> panels{}, blocks{}, channels{};  // by vectors
  for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
    const Reduction over = reduction(p, plan, 0, panel);
    const auto vectors = static_cast<size_t>(plan.panels.vectors(panel));
    panels[vectors] += 1;
    blocks[vectors] += static_cast<double>(over.blocks);
    channels[vectors] += static_cast<double>(over.channels);
  }
  const auto seen = static_cast<double>(plan.vertical.taps_seen() * plan.horizontal.taps_seen());
  const auto gaps = static_cast<double>(tap_gaps(plan.vertical, plan.horizontal));
  TileWork work;
  WeightWork weights;
  for (int v = 1; v <= TileSet::kMaxVectors; ++v) {
    if (panels[v] == 0) continue;
    const double depth = channels[v] / panels[v];
    const double parts =
        std::ceil(blocks[v] / panels[v] / static_cast<double>(blocks_of_part(plan, v)));
    add_tiles(work, plan.vertical, plan.horizontal, set.max_rows[v], panels[v], v, parts,
              [&](const Patch& patch) {
                return depth * static_cast<double>(patch.taps_down() * patch.taps_across());
              });
    weights.bytes += channels[v] * seen * v * static_cast<double>(plan.block * 4);
    const bool partial = channels[v] < blocks[v] * static_cast<double>(plan.block);
    weights.pieces += std::max(partial ? panels[v] * seen : 0, blocks[v] * gaps);
  }
  const ShareSize share =
      largest_share(p.n * plan.vertical.out, plan.panels.count * plan.groups, p.target.threads,
                    p.n * plan.all_in * p.h * p.w * plan.block,
                    plan.all_out * plan.block * plan.in_blocks * plan.block * plan.taps);
  weights.bytes *= static_cast<double>(plan.groups);
  weights.pieces *= static_cast<double>(plan.groups);
  weights.part = share.of_columns;
  // Tiles of few results prefetch less of the next weights than they use.
  weights.exposed = std::clamp(1.25 - work.results / std::max(work.starts, 1.0) / 8, 0.5, 1.0);
  const int64_t bands = (plan.vertical.out + rows_in_l2(p, plan) - 1) / rows_in_l2(p, plan);
  weights.passes = share.passes(static_cast<double>(p.n * bands));
  const double all = static_cast<double>(p.n * plan.groups) * tile_cycles(work, kStart, p.epilogue);
  return run_cycles(p.target, all * share.of_all, weights);
}

Fit fits(const Conv2dProblem& p) {
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  if (p.groups != 1 && p.groups == p.c && p.groups == p.k) return Fit::no("depthwise");
  if (static_cast<int64_t>(p.kernel_h) * p.kernel_w > kMostTaps) return Fit::no("kernel too large");
  return Fit::yes(expected_share(p.target, problem_flops(p), cycles(p, make_plan(p))));
}

std::string packing(const Conv2dProblem& p) {
  const Plan plan = make_plan(p);
  return packing_text(plan.shared ? "conv2d_direct_shared" : "conv2d_direct", 1, plan.block,
                      plan.panels.count);
}

size_t packed_bytes(const Conv2dProblem& p) {
  const Plan plan = make_plan(p);
  const int64_t outputs = plan.all_out * plan.block;
  return static_cast<size_t>(outputs * (plan.in_blocks * plan.block * plan.taps + 1)) *
         sizeof(float);
}

// bias [outputs], then per group and panel [in block][tap][lane of it][panel outputs]. A panel that
// reduces over fewer blocks than others leaves the rest of its place unused.
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  float* out = pack_bias(p, constants, reinterpret_cast<float*>(packed));
  const auto weight = constants[0].values<float>();
  const int64_t inputs = p.c / p.groups, outputs = p.k / p.groups;
  for (int64_t column = 0; column < plan.groups * plan.panels.count; ++column) {
    const int64_t group = column / plan.panels.count, panel = column % plan.panels.count;
    const Reduction over = reduction(p, plan, group, panel);
    // From here on channels are counted in memory, where a group may end within its last block.
    const int64_t k0 = (group * plan.out_blocks + plan.panels.begin(panel)) * plan.block;
    const int64_t width = plan.panels.vectors(panel) * plan.block;
    for (int64_t c0 = over.block * plan.block; c0 < (over.block + over.blocks) * plan.block;
         c0 += plan.block) {
      for (int64_t tap = 0; tap < plan.taps; ++tap) {
        for (int64_t c = c0; c < c0 + plan.block; ++c) {
          for (int64_t k = k0; k < k0 + width; ++k) {
            const bool real = k < p.k && c < p.c && k / outputs == c / inputs;
            const int64_t row = k * inputs + c % inputs;
            *out++ = real ? weight[row * plan.taps + tap] : 0;
          }
        }
      }
    }
    out += (plan.in_blocks - over.blocks) * plan.panel_step(width / plan.block);
  }
}

// Fills `taps` with those that `patch` sees, relative to the input pixel under tap 0; returns how
// many.
int list_taps(const Conv2dProblem& p, const Plan& plan, const Patch& patch, int vectors,
              Tap* taps) {
  int count = 0;
  for (int64_t r = patch.r; r < patch.r_end; ++r) {
    for (int64_t s = patch.s; s < patch.s_end; ++s) {
      taps[count++] = {(r * p.dilation_h * p.w + s * p.dilation_w) * plan.block,
                       (r * p.kernel_w + s) * plan.block * plan.block * vectors};
    }
  }
  return count;
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = plan.block, out_h = plan.vertical.out, out_w = plan.horizontal.out;
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + plan.all_out * block;
  const int64_t in_plane = p.h * p.w * block, out_plane = out_h * out_w * block;

  Tile tile;
  Tap taps[kMostTaps];
  tile.taps = taps;
  tile.a_group = in_plane;
  tile.c_vector = out_plane;
  tile.far_results = beyond_l2(p.n * plan.all_out * out_plane / worker.count);
  const GridPart grid =
      split_grid(p.n * out_h, plan.panels.count * plan.groups, worker, p.n * plan.all_in * in_plane,
                 plan.all_out * block * plan.in_blocks * block * plan.taps);
  const int64_t block_rows = rows_in_l2(p, plan);
  for (int64_t at = grid.rows.begin; at < grid.rows.end;) {
    const int64_t image = at / out_h, first = at % out_h;
    const int64_t count = std::min(out_h - first, grid.rows.end - at);
    const EvenTiles row_blocks(count, static_cast<int>(block_rows));
    at += count;
    for (int64_t rows = 0; rows < row_blocks.tiles; ++rows) {
      const int64_t y_begin = first + row_blocks.begin(rows);
      const int64_t y_end = first + row_blocks.begin(rows + 1);
      for (int64_t column = grid.columns.begin; column < grid.columns.end; ++column) {
        const int64_t group = column / plan.panels.count, panel = column % plan.panels.count;
        const Reduction over = reduction(p, plan, group, panel);
        const int vectors = static_cast<int>(plan.panels.vectors(panel));
        const int64_t k_block = group * plan.out_blocks + plan.panels.begin(panel);
        const float* panel_weights = weights + k_block * plan.in_blocks * plan.panel_step(1);
        tile.bias = bias + k_block * block;
        tile.b_group = plan.panel_step(vectors);
        const EvenTiles parts(over.blocks, static_cast<int>(blocks_of_part(plan, vectors)));
        for (int64_t part = 0; part < parts.tiles; ++part) {
          const int64_t c_block = parts.begin(part), c_end = parts.begin(part + 1);
          const float* in = x + (image * plan.all_in + over.block + c_block) * in_plane;
          tile.b = panel_weights + c_block * tile.b_group;
          tile.groups = static_cast<int32_t>(c_end - c_block);
          tile.steps = static_cast<int32_t>(block);
          tile.last_steps =
              static_cast<int32_t>(std::min(block, over.channels - (c_end - 1) * block));
          const int64_t part_weights = tile.groups * tile.b_group;
          // About: patches at the borders are smaller, and their tiles more.
          const int64_t tile_count =
              std::max<int64_t>(1, (y_end - y_begin) * out_w / set.max_rows[vectors]);
          int64_t tiles_done = 0;
          for_patches(plan.vertical, plan.horizontal, y_begin, y_end, [&](const Patch& patch) {
            tile.tap_count = list_taps(p, plan, patch, vectors, taps);
            const PatchTiles tiles(patch, set.max_rows[vectors]);
            tile.a_row = (tiles.down ? p.stride_h * p.w : p.stride_w) * block;
            tile.c_row = (tiles.down ? out_w : 1) * block;
            tiles.for_each(patch, [&](int64_t y, int64_t x0, int pixels) {
              tile.a =
                  in + ((y * p.stride_h - p.pad_top) * p.w + x0 * p.stride_w - p.pad_left) * block;
              const int64_t c =
                  (image * plan.all_out + k_block) * out_plane + (y * out_w + x0) * block;
              set_prefetch(tile, tile.b + part_weights, part_weights, tiles_done++, tile_count,
                           (y_end - y_begin) * out_w);
              run_tile(set, tile, p.epilogue, args, c, pixels, vectors,
                       {part == 0, part + 1 == parts.tiles});
            });
          });
        }
      }
    }
  }
}

}  // namespace

const Row kDirect{.name = "direct",
                  .fits = fits,
                  .packed_bytes = packed_bytes,
                  .pack = pack,
                  .packing = packing,
                  .scratch_bytes = nullptr,
                  .in_place = over_residual,
                  .run = run};

}  // namespace stretto::kernels::conv2d
