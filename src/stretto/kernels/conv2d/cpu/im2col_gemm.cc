// The catch-all: any layouts, geometry and groups, as a matrix product over gathered lines. A line
// holds one tap of one input channel for neighbouring output pixels, zero where only padding is
// seen.
//
// Plain output: rows are output channels, vectors are pixels (the lines are B, the weights A). The
// bias is one more weight of every row, and meets a line of ones.
// Blocked output: rows are pixels, vectors are output channels (the lines are A, the weights B),
// unless the groups are no whole blocks; those are computed as for a plain output and scattered.
// The gather costs about one load and store per tap and pixel, shared by all outputs of the group.
#include <algorithm>
#include <cstring>

#include "stretto/base/cpu.h"
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"

namespace stretto::kernels::conv2d {
namespace {

struct Plan {
  int64_t block, plane;    // plane: output pixels
  int64_t depth, outputs;  // of one group
  bool pixel_rows;         // rows of the product are pixels
  Panels panels;           // output blocks of one group when pixel_rows, else one panel
  int64_t line;            // pixels of a gathered line
  int64_t steps;           // of the product: depth, and one for the bias unless pixel_rows
  int64_t lines_per_plane;
  int64_t thread_scratch;  // floats
};

Plan make_plan(const Conv2dProblem& p) {
  const TileSet& set = tile_set(p.target.isa);
  Plan plan{.block = set.lanes,
            .plane = p.out_h() * p.out_w(),
            .depth = p.c / p.groups * p.kernel_h * p.kernel_w,
            .outputs = p.k / p.groups,
            .pixel_rows = false,
            .panels = {1, 1, 1},
            .line = 0,
            .steps = 0,
            .lines_per_plane = 0,
            .thread_scratch = 0};
  plan.pixel_rows =
      p.y_layout == Layout::kBlocked && (p.groups == 1 || plan.outputs % plan.block == 0);
  if (plan.pixel_rows) {
    plan.panels = choose_panels(p.target, blocks_of(plan.outputs, plan.block), plan.plane);
    const int64_t rows = set.max_rows[plan.panels.width];
    const int64_t most = cpu_info().l2_bytes / 2 / (plan.depth * 4) / rows * rows;
    plan.line = std::clamp<int64_t>(most, rows, 8 * rows);
    plan.steps = plan.depth;
    plan.thread_scratch = plan.steps * plan.line;
  } else {
    const int64_t vectors = choose_panels(p.target, 2, plan.outputs).width;
    plan.line = vectors * plan.block;
    plan.steps = plan.depth + 1;
    // The lines, a tile, and two lines to finish it in.
    plan.thread_scratch = (plan.steps + TileSet::kMaxRows + 2) * plan.line;
  }
  plan.lines_per_plane = (plan.plane + plan.line - 1) / plan.line;
  plan.thread_scratch = round_up(plan.thread_scratch, 16);
  return plan;
}

// Whether tiles of whole lines may be summed where the output lies.
bool sums_in_place(const Conv2dProblem& p) {
  return p.y_layout == Layout::kPlain && tile_applies(p.epilogue.activation);
}

// Whether output pixel i sees input pixel i of a plain map and no other.
bool copies_lines(const Conv2dProblem& p) {
  return p.x_layout == Layout::kPlain && p.kernel_h == 1 && p.kernel_w == 1 && p.stride_h == 1 &&
         p.stride_w == 1 && p.pad_top == 0 && p.pad_left == 0 && p.out_h() == p.h &&
         p.out_w() == p.w;
}

// Rows of a map are copied one by one, blocked channels value by value.
double gather_cycles(const Conv2dProblem& p, const Plan& plan) {
  constexpr double kLine = 13, kRow = 26.5;
  constexpr double kFarBytesPerCycle = 8;  // single channels of a blocked map beyond L2
  const bool neighbours = p.stride_w == 1;
  const double value =
      p.x_layout == Layout::kBlocked ? (neighbours ? 1.2 : 1.35) : (neighbours ? 0.27 : 1.35);
  // A line covers parts of so many rows of the map. Lines of what the output's pixels see alone are
  // copied at once.
  const int64_t copied = copies_lines(p) ? plan.plane / plan.line * plan.line : 0;
  int64_t rows = 0;
  for (int64_t at = copied; at < plan.plane; at += plan.line) {
    const int64_t end = std::min(at + plan.line, plan.plane);
    rows += (end - 1) / p.out_w() - at / p.out_w() + 1;
  }
  const bool far = p.x_layout == Layout::kBlocked && beyond_l2(p.n * p.c * p.h * p.w);
  const double map = far ? static_cast<double>(p.c / p.groups * p.h * p.w * 4) : 0;
  return map / kFarBytesPerCycle +
         static_cast<double>(plan.depth) *
             (value * static_cast<double>(plan.plane) + kRow * static_cast<double>(rows) +
              kLine * static_cast<double>(plan.lines_per_plane - copied / plan.line));
}

// Tiles of one group and image, and what comes after them.
double product_cycles(const Conv2dProblem& p, const Plan& plan) {
  constexpr double kStart = 20;
  const TileSet& set = tile_set(p.target.isa);
  const auto depth = static_cast<double>(plan.steps);
  TileWork work;
  if (plan.pixel_rows) {
    const auto one = [](int) { return 1; };
    add_panels(work, set, plan.panels, static_cast<double>(plan.plane / plan.line), plan.line,
               depth, one);
    add_panels(work, set, plan.panels, 1, plan.plane % plan.line, depth, one);
    return tile_cycles(work, kStart, p.epilogue);
  }
  constexpr double kPutRow = 26.5;
  constexpr double kInPlace = 0.5;                                // a value of whole lines
  const double put = p.y_layout == Layout::kBlocked ? 3.7 : 1.7;  // another value
  const int64_t vectors = plan.line / plan.block;
  const EvenTiles cut(plan.outputs, set.max_rows[vectors]);
  const auto tiles = static_cast<double>(cut.tiles),
             lines = static_cast<double>(plan.lines_per_plane);
  const auto outputs = static_cast<double>(plan.outputs);
  work.add(lines * tiles, outputs / tiles, static_cast<double>(vectors), depth);
  const int64_t whole = sums_in_place(p) ? plan.plane / plan.line : 0;
  return tile_cycles(work, kStart, p.epilogue) +
         outputs * (kPutRow * (lines - static_cast<double>(whole)) +
                    put * static_cast<double>(plan.plane - whole * plan.line) +
                    kInPlace * static_cast<double>(whole * plan.line));
}

Fit fits(const Conv2dProblem& p) {
  constexpr double kExposed = 0.5;
  const Plan plan = make_plan(p);
  if (plan.plane == 0 || plan.depth == 0) return Fit::yes(1);
  const int64_t units = p.n * p.groups * plan.lines_per_plane;
  const int64_t columns =
      plan.pixel_rows
          ? plan.panels.count
          : EvenTiles(plan.outputs, tile_set(p.target.isa).max_rows[plan.line / plan.block]).tiles;
  const ShareSize share = largest_share(units, columns, p.target.threads, 1, 0);
  const double all = static_cast<double>(p.n * p.groups);
  const WeightWork weights{
      .bytes = static_cast<double>(
          p.groups * round_up(plan.outputs, plan.pixel_rows ? plan.block : 1) * plan.depth * 4),
      .part = share.of_columns,
      .passes = share.passes(static_cast<double>(p.n * plan.lines_per_plane)),
      .exposed = kExposed};
  const double compute =
      all * (gather_cycles(p, plan) * share.of_rows() + product_cycles(p, plan) * share.of_all);
  return Fit::yes(
      expected_share(p.target, problem_flops(p), run_cycles(p.target, compute, weights)));
}

std::string packing(const Conv2dProblem& p) {
  const Plan plan = make_plan(p);
  return plan.pixel_rows ? packing_text("conv2d_im2col", 1, plan.block, plan.panels.count)
                         : packing_text("conv2d_im2col_rows", 1, plan.block);
}

size_t packed_bytes(const Conv2dProblem& p) {
  const Plan plan = make_plan(p);
  const int64_t outputs = round_up(p.k, plan.block);
  return static_cast<size_t>(plan.pixel_rows ? outputs + outputs * plan.depth : p.k * plan.steps) *
         sizeof(float);
}

// Rows of pixels: the bias [outputs in whole blocks], then the weights per group and panel
// [depth][panel outputs]. Rows of channels: [outputs][bias, depth].
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  float* out = reinterpret_cast<float*>(packed);
  const auto weight = constants[0].values<float>();
  if (!plan.pixel_rows) {
    for (int64_t k = 0; k < p.k; ++k) {
      *out++ = p.epilogue.bias ? constants[1].values<float>()[k] : 0;
      out = std::copy_n(weight.begin() + k * plan.depth, plan.depth, out);
    }
    return;
  }
  out = pack_bias(p, constants, out);
  for (int64_t group = 0; group < p.groups; ++group) {
    for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
      const int64_t k0 = plan.panels.begin(panel) * plan.block;
      const int64_t width = plan.panels.vectors(panel) * plan.block;
      for (int64_t i = 0; i < plan.depth; ++i) {
        for (int64_t k = k0; k < k0 + width; ++k) {
          const int64_t row = group * plan.outputs + k;
          *out++ = k < plan.outputs ? weight[row * plan.depth + i] : 0;
        }
      }
    }
  }
}

size_t scratch_bytes(const Conv2dProblem& p) {
  return static_cast<size_t>(make_plan(p).thread_scratch * p.target.threads) * sizeof(float);
}

// to[i] = what output pixel `pixel` + i sees through tap (r, s) of one channel, for i < line.
// `channel` is that channel's first value; neighbouring columns are `step` values apart.
void gather_line(const Conv2dProblem& p, const Plan& plan, const float* channel, int64_t step,
                 int r, int s, int64_t pixel, float* to) {
  const int64_t out_w = p.out_w();
  const int64_t end = std::min(plan.plane, pixel + plan.line);
  float* const to_end = to + plan.line;
  while (pixel < end) {
    const int64_t oy = pixel / out_w, ox = pixel % out_w;
    const int64_t count = std::min(out_w - ox, end - pixel);
    const int64_t iy = oy * p.stride_h + r * p.dilation_h - p.pad_top;
    const int64_t ix = ox * p.stride_w + s * p.dilation_w - p.pad_left;
    int64_t before = count, inside = 0;
    if (iy >= 0 && iy < p.h && ix < p.w) {
      before = ix >= 0 ? 0 : std::min(count, (-ix + p.stride_w - 1) / p.stride_w);
      inside =
          std::clamp<int64_t>((p.w - ix + p.stride_w - 1) / p.stride_w - before, 0, count - before);
    }
    std::fill(to, to + before, 0.0f);
    const float* from = channel + (iy * p.w + ix + before * p.stride_w) * step;
    float* middle = to + before;
    if (inside > 0 && step == 1 && p.stride_w == 1) {
      std::memcpy(middle, from, static_cast<size_t>(inside) * sizeof(float));
    } else {
      for (int64_t i = 0; i < inside; ++i) middle[i] = from[i * p.stride_w * step];
    }
    std::fill(middle + inside, to + count, 0.0f);
    to += count;
    pixel += count;
  }
  std::fill(to, to_end, 0.0f);
}

// All lines [depth][line] of one group for the pixels from `pixel`.
void gather(const Conv2dProblem& p, const Plan& plan, const float* x, int64_t image, int64_t group,
            int64_t pixel, float* to) {
  const bool blocked = p.x_layout == Layout::kBlocked;
  const int64_t block = blocked ? plan.block : 1, in_plane = p.h * p.w;
  const int64_t channels = p.c / p.groups;
  const bool copied = copies_lines(p) && pixel + plan.line <= plan.plane;
  for (int64_t c = group * channels; c < (group + 1) * channels; ++c) {
    const float* channel =
        x + ((image * blocks_of(p.c, block) + c / block) * in_plane) * block + c % block;
    if (copied) {
      std::memcpy(to, channel + pixel, static_cast<size_t>(plan.line) * sizeof(float));
      to += plan.line;
      continue;
    }
    for (int r = 0; r < p.kernel_h; ++r) {
      for (int s = 0; s < p.kernel_w; ++s, to += plan.line) {
        gather_line(p, plan, channel, block, r, s, pixel, to);
      }
    }
  }
}

// Pixels as rows: tiles go straight to the blocked output.
void run_pixel_rows(const Conv2dProblem& p, const Plan& plan, const Args& args,
                    const Worker& worker) {
  const TileSet& set = tile_set(p.target.isa);
  const int64_t out_blocks = blocks_of(plan.outputs, plan.block);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + round_up(p.k, plan.block);
  float* lines = reinterpret_cast<float*>(args.scratch) + worker.thread * plan.thread_scratch;
  Tile tile;
  tile.taps = &kNoTap;
  tile.a_row = 1;
  tile.a_group = plan.line;
  tile.groups = static_cast<int32_t>(plan.depth);
  tile.steps = tile.last_steps = 1;
  tile.c_row = plan.block;
  tile.c_vector = plan.plane * plan.block;
  const GridPart grid =
      split_grid(p.n * p.groups * plan.lines_per_plane, plan.panels.count, worker, 1, 0);
  for (int64_t unit = grid.rows.begin; unit < grid.rows.end; ++unit) {
    const int64_t image = unit / (p.groups * plan.lines_per_plane);
    const int64_t group = unit / plan.lines_per_plane % p.groups;
    const int64_t pixel = unit % plan.lines_per_plane * plan.line;
    const int64_t count = std::min(plan.line, plan.plane - pixel);
    if (grid.columns.begin == grid.columns.end) return;
    gather(p, plan, static_cast<const float*>(args.inputs[0]), image, group, pixel, lines);
    for (int64_t panel = grid.columns.begin; panel < grid.columns.end; ++panel) {
      const int vectors = static_cast<int>(plan.panels.vectors(panel));
      const int64_t k_block = group * out_blocks + plan.panels.begin(panel);
      tile.b = weights + k_block * plan.block * plan.depth;
      tile.b_group = vectors * plan.block;
      tile.bias = bias + k_block * plan.block;
      const EvenTiles tiles(count, set.max_rows[vectors]);
      for (int64_t t = 0; t < tiles.tiles; ++t) {
        const int64_t at = tiles.begin(t);
        tile.a = lines + at;
        const int64_t c =
            ((image * out_blocks * p.groups + k_block) * plan.plane + pixel + at) * plan.block;
        run_tile(set, tile, p.epilogue, args, c, static_cast<int>(tiles.begin(t + 1) - at),
                 vectors);
      }
    }
  }
}

// Finishes one row (output channel k) of a tile and puts it where it belongs.
void put_row(const Conv2dProblem& p, const Plan& plan, const Args& args, const float* row,
             int64_t image, int64_t k, int64_t pixel, int count, float* spare) {
  const TileSet& set = tile_set(p.target.isa);
  float* y = static_cast<float*>(args.outputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  if (p.y_layout == Layout::kPlain) {
    const int64_t at = (image * p.k + k) * plan.plane + pixel;
    set.finish_columns(p.epilogue, row, 0, y + at, 0, 1, count, residual ? residual + at : nullptr);
    return;
  }
  const int64_t at =
      ((image * blocks_of(p.k, plan.block) + k / plan.block) * plan.plane + pixel) * plan.block +
      k % plan.block;
  float* extra = spare + plan.line;
  if (residual) {
    for (int i = 0; i < count; ++i) extra[i] = residual[at + i * plan.block];
  }
  set.finish_columns(p.epilogue, row, 0, spare, 0, 1, count, residual ? extra : nullptr);
  for (int i = 0; i < count; ++i) y[at + i * plan.block] = spare[i];
}

// Output channels as rows. Tiles go through scratch where a line may end anywhere in a plane.
void run_channel_rows(const Conv2dProblem& p, const Plan& plan, const Args& args,
                      const Worker& worker) {
  const TileSet& set = tile_set(p.target.isa);
  const float* weights = reinterpret_cast<const float*>(args.packed);
  float* lines = reinterpret_cast<float*>(args.scratch) + worker.thread * plan.thread_scratch;
  std::fill_n(lines, plan.line, 1.0f);
  float* sums = lines + plan.steps * plan.line;
  float* spare = sums + TileSet::kMaxRows * plan.line;
  const int vectors = static_cast<int>(plan.line / plan.block);
  const EvenTiles tiles(plan.outputs, set.max_rows[vectors]);
  Tile tile;
  tile.taps = &kNoTap;
  tile.a_row = plan.steps;
  tile.b = lines;
  tile.groups = 1;
  tile.steps = tile.last_steps = static_cast<int32_t>(plan.steps);
  tile.c_vector = plan.block;
  Tile whole = tile;  // for lines that lie in the output as they are
  whole.c_row = plan.plane;
  set_epilogue(whole, p.epilogue);
  tile.c = sums;
  tile.c_row = plan.line;
  const bool in_place = sums_in_place(p);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  const GridPart grid =
      split_grid(p.n * p.groups * plan.lines_per_plane, tiles.tiles, worker, 1, 0);
  for (int64_t unit = grid.rows.begin; unit < grid.rows.end; ++unit) {
    const int64_t image = unit / (p.groups * plan.lines_per_plane);
    const int64_t group = unit / plan.lines_per_plane % p.groups;
    const int64_t pixel = unit % plan.lines_per_plane * plan.line;
    const int count = static_cast<int>(std::min(plan.line, plan.plane - pixel));
    if (grid.columns.begin == grid.columns.end) return;
    gather(p, plan, static_cast<const float*>(args.inputs[0]), image, group, pixel,
           lines + plan.line);
    for (int64_t t = grid.columns.begin; t < grid.columns.end; ++t) {
      const int64_t k0 = group * plan.outputs + tiles.begin(t);
      const int rows = static_cast<int>(tiles.begin(t + 1) - tiles.begin(t));
      if (in_place && count == plan.line) {
        const int64_t at = (image * p.k + k0) * plan.plane + pixel;
        whole.a = weights + k0 * plan.steps;
        whole.c = static_cast<float*>(args.outputs[0]) + at;
        whole.residual = residual == nullptr ? nullptr : residual + at;
        set.run[vectors][rows](whole);
        continue;
      }
      tile.a = weights + k0 * plan.steps;
      set.run[vectors][rows](tile);
      for (int i = 0; i < rows; ++i) {
        put_row(p, plan, args, sums + i * plan.line, image, k0 + i, pixel, count, spare);
      }
    }
  }
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  if (plan.pixel_rows) {
    run_pixel_rows(p, plan, args, worker);
  } else {
    run_channel_rows(p, plan, args, worker);
  }
}

}  // namespace

const Row kIm2colGemm{.name = "im2col_gemm",
                      .fits = fits,
                      .packed_bytes = packed_bytes,
                      .pack = pack,
                      .packing = packing,
                      .scratch_bytes = scratch_bytes,
                      .run = run};

}  // namespace stretto::kernels::conv2d
