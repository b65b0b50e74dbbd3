#include "stretto/kernels/winograd/engine.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/cpu.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/simd/tile.h"
#include "stretto/kernels/winograd/transforms.h"

namespace stretto::kernels::winograd {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A stride that does not send the planes of one tile to the same cache sets.
int64_t spread(int64_t values, int64_t lanes) {
  const int64_t line = 64 / static_cast<int64_t>(sizeof(float));
  return round_up(values, line) + (values % 256 < line ? std::max(line, lanes) : 0);
}

// V and M of a block of tiles stay in L2, next to a passing stream of U.
constexpr int64_t kBlockBytes = 640 << 10;

// Transformed filters of more bytes than this are read from afar in every inference, and a block of
// tiles that overflows L2 costs less than a second pass over them.
constexpr int64_t kColdBytes = 4 << 20;

// Values of one transformed filter, of one phase.
int64_t filter_values(const Task& task) {
  const int64_t products = task.scheme->products;
  return products * products;
}

// Phases of both dimensions.
int64_t phases_of(const Task& task) { return task.scheme->phases * task.scheme->phases; }

int64_t filter_bytes(const Task& task) {
  return phases_of(task) * filter_values(task) * (task.c / task.groups) * task.k *
         static_cast<int64_t>(sizeof(float));
}

// Products of target (q, r): chains of both dimensions combined.
int taps_of(const Scheme& s, int q, int r, const Plan& plan, int64_t first_filter, int64_t filter,
            Tap* taps) {
  int count = 0;
  for (int p = s.first[q]; p < s.first[q + 1]; ++p) {
    for (int o = s.first[r]; o < s.first[r + 1]; ++o) {
      taps[count] = {(p * s.products + o) * plan.v_plane, (first_filter + count) * filter};
      ++count;
    }
  }
  return count;
}

}  // namespace

Plan make_plan(const Task& task) {
  const Scheme& s = *task.scheme;
  const int64_t lanes = task.target.lanes();
  const int64_t group_c = task.c / task.groups;
  const int64_t group_in = ceil_div(group_c, lanes);
  const int64_t group_out = ceil_div(task.k / task.groups, lanes);
  const int64_t tiles_y = ceil_div(task.out_h, s.out * s.phases);
  const int64_t tiles_x = ceil_div(task.out_w, s.out * s.phases);
  const int64_t tiles = task.n * tiles_y * tiles_x;
  const TileSet& set = tile_set(task.target.isa);
  const Panels panels = choose_panels(task.target, group_out, tiles, task.target.threads);

  const int64_t v_row = spread(group_in * lanes, lanes);
  int64_t widest = 0;
  for (int64_t i = 0; i < panels.count; ++i) widest = std::max(widest, panels.vectors(i));
  const int64_t products = s.products * s.products, targets = s.targets * s.targets;
  const int64_t tile_bytes =
      (products * v_row + targets * widest * lanes) * static_cast<int64_t>(sizeof(float));
  const int64_t rows = set.max_rows[panels.width];
  const int64_t least = filter_bytes(task) > kColdBytes ? 2 * rows : rows;
  const int64_t most = std::clamp(kBlockBytes / tile_bytes / rows * rows, least, 8 * rows);
  const bool by_panels = task.target.threads > 1 && tiles <= most && panels.count > 1;
  const int64_t share = by_panels ? tiles : ceil_div(tiles, task.target.threads);
  const int64_t block_tiles = ceil_div(share, ceil_div(share, most));
  const int64_t v_plane = spread(block_tiles * v_row, lanes);
  const int64_t m_plane = spread(block_tiles * widest * lanes, lanes);
  return {.lanes = lanes,
          .group_c = group_c,
          .group_in = group_in,
          .group_out = group_out,
          .tiles_y = tiles_y,
          .tiles_x = tiles_x,
          .tiles = tiles,
          .block_tiles = block_tiles,
          .by_panels = by_panels,
          .v_row = v_row,
          .v_plane = v_plane,
          .v_values = products * v_plane,
          .m_plane = m_plane,
          .m_values = targets * m_plane,
          .panels = panels};
}

size_t packed_bytes(const Task& task) {
  const Plan plan = make_plan(task);
  const int64_t outputs = task.groups * plan.group_out * plan.lanes;
  return static_cast<size_t>(outputs * (1 + phases_of(task) * filter_values(task) * plan.group_c)) *
         sizeof(float);
}

size_t scratch_bytes(const Task& task) {
  const Plan plan = make_plan(task);
  const int64_t threads = task.target.threads;
  return static_cast<size_t>((plan.by_panels ? 1 : threads) * plan.v_values +
                             threads * plan.m_values) *
         sizeof(float);
}

// bias [outputs], then per phase, group and panel: [product in order of use][c][panel outputs].
void pack(const Task& task, const std::function<float(int64_t, int64_t, int, int)>& weight,
          const float* bias, std::byte* packed) {
  const Scheme& s = *task.scheme;
  const Plan plan = make_plan(task);
  const int64_t outputs = task.groups * plan.group_out * plan.lanes;
  float* out = reinterpret_cast<float*>(packed);
  for (int64_t k = 0; k < outputs; ++k) out[k] = bias && k < task.k ? bias[k] : 0;
  out += outputs;

  int order[Scheme::kMaxProducts * Scheme::kMaxProducts];  // [row product][column product]
  int used = 0;
  for (int q = 0; q < s.targets; ++q) {
    for (int r = 0; r < s.targets; ++r) {
      for (int p = s.first[q]; p < s.first[q + 1]; ++p) {
        for (int o = s.first[r]; o < s.first[r + 1]; ++o) order[p * s.products + o] = used++;
      }
    }
  }
  const int64_t group_k = task.k / task.groups;
  for (int64_t i = 0; i < phases_of(task) * task.groups; ++i) {
    const int64_t group = i % task.groups, phase = i / task.groups;
    const auto& g_y = s.g[phase / s.phases];
    const auto& g_x = s.g[phase % s.phases];
    for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
      const int64_t width = plan.panels.vectors(panel) * plan.lanes;
      const int64_t k0 = plan.panels.begin(panel) * plan.lanes;
      for (int64_t c = 0; c < plan.group_c; ++c) {
        for (int64_t j = 0; j < width; ++j) {
          const bool real = k0 + j < group_k;
          double rows[Scheme::kMaxProducts][Scheme::kMaxTaps] = {};
          for (int x = 0; x < s.taps && real; ++x) {
            for (int y = 0; y < s.taps; ++y) {
              const double w = weight(group * group_k + k0 + j, c, y, x);
              for (int p = 0; p < s.products; ++p) rows[p][x] += g_y[p][y] * w;
            }
          }
          for (int p = 0; p < s.products; ++p) {
            for (int o = 0; o < s.products; ++o) {
              double u = 0;
              for (int x = 0; x < s.taps; ++x) u += rows[p][x] * g_x[o][x];
              out[(order[p * s.products + o] * plan.group_c + c) * width + j] =
                  static_cast<float>(u);
            }
          }
        }
      }
      out += used * plan.group_c * width;
    }
  }
}

namespace {

// One group and phase.
struct Operands {
  const float *x, *residual, *bias, *filters;
  float *y, *v, *m;
  int64_t phase_y, phase_x;
};

void multiply_and_finish(const Task& task, const Plan& plan, const Operands& on, const Tiles& tiles,
                         const Range& panels) {
  const Scheme& s = *task.scheme;
  const TileSet& set = tile_set(task.target.isa);
  const Transforms& transform = transforms(task.target.isa, s);
  const int64_t map = task.out_h * task.out_w * plan.lanes;
  const int64_t image = task.groups * plan.group_out * map;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    const int vectors = static_cast<int>(plan.panels.vectors(panel));
    const int64_t first = plan.panels.begin(panel), width = vectors * plan.lanes;
    const float* filters = on.filters + first * plan.lanes * filter_values(task) * plan.group_c;
    const EvenTiles parts(tiles.count, set.max_rows[vectors]);
    Tap taps[4];
    int64_t used = 0;
    Tile tile{
        .a_row = plan.v_row, .b = filters, .taps = taps, .c_row = width, .c_vector = plan.lanes};
    tile.steps = tile.last_steps = static_cast<int32_t>(plan.group_c);
    for (int q = 0; q < s.targets; ++q) {
      for (int r = 0; r < s.targets; ++r) {
        tile.tap_count = taps_of(s, q, r, plan, used, plan.group_c * width, taps);
        used += tile.tap_count;
        // The filters of the next products lie behind these; in a network they come from memory.
        const int64_t steps = tile.tap_count * plan.group_c;
        for (int64_t part = 0; part < parts.tiles; ++part) {
          const int64_t begin = parts.begin(part);
          set_prefetch(tile, filters + used * plan.group_c * width, steps * width, part,
                       parts.tiles, parts.begin(parts.tiles));
          tile.a = on.v + begin * plan.v_row;
          tile.c = on.m + (q * s.targets + r) * plan.m_plane + begin * width;
          set.run[vectors][parts.begin(part + 1) - begin](tile);
        }
      }
    }
    for (int v = 0; v < vectors; ++v) {
      const int64_t block = first + v;
      transform.output({.m = on.m + v * plan.lanes,
                        .plane = plan.m_plane,
                        .row = width,
                        .y = on.y + block * map,
                        .residual = on.residual ? on.residual + block * map : nullptr,
                        .bias = on.bias + block * plan.lanes,
                        .image = image,
                        .line = s.phases * task.out_w * plan.lanes,
                        .h = ceil_div(task.out_h - on.phase_y, s.phases),
                        .w = ceil_div(task.out_w - on.phase_x, s.phases),
                        .tiles = tiles,
                        .far = beyond_l2(task.n * image)},
                       task.epilogue);
    }
  }
}

}  // namespace

// By panels, a part has two phases: its transformed input, which all threads share, is the whole of
// a block of tiles. Else each thread transforms and multiplies its own tiles, in units of blocks.
int phases(const Task& task) {
  const int64_t parts = phases_of(task) * task.groups;
  return make_plan(task).by_panels ? static_cast<int>(2 * parts) : 1;
}

namespace {

Operands operands_of(const Task& task, const Plan& plan, const Args& args, const Worker& worker,
                     int64_t part) {
  const Scheme& s = *task.scheme;
  const int64_t in_map = task.h * task.w * plan.lanes;
  const int64_t out_map = task.out_h * task.out_w * plan.lanes;
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* filters = bias + task.groups * plan.group_out * plan.lanes;
  const float* residual =
      task.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* scratch = reinterpret_cast<float*>(args.scratch);
  float* sums = scratch + (plan.by_panels ? 1 : worker.count) * plan.v_values;
  const int64_t group = part % task.groups, phase = part / task.groups;
  const int64_t phase_y = phase / s.phases, phase_x = phase % s.phases;
  const int64_t k0 = group * plan.group_out;
  const int64_t out_at = k0 * out_map + (phase_y * task.out_w + phase_x) * plan.lanes;
  return {
      .x = static_cast<const float*>(args.inputs[0]) + group * plan.group_in * in_map,
      .residual = residual ? residual + out_at : nullptr,
      .bias = bias + k0 * plan.lanes,
      .filters = filters + part * plan.group_out * plan.lanes * filter_values(task) * plan.group_c,
      .y = static_cast<float*>(args.outputs[0]) + out_at,
      .v = plan.by_panels ? scratch : scratch + worker.thread * plan.v_values,
      .m = sums + worker.thread * plan.m_values,
      .phase_y = phase_y,
      .phase_x = phase_x};
}

// Transforms tiles `mine` of a block.
void transform_input(const Task& task, const Plan& plan, const Operands& on, const Tiles& block,
                     const Range& mine) {
  const int64_t in_map = task.h * task.w * plan.lanes;
  transforms(task.target.isa, *task.scheme)
      .input(
          {.x = on.x,
           .image = task.groups * plan.group_in * in_map,
           .block = in_map,
           .blocks = plan.group_in,
           .h = task.h,
           .w = task.w,
           .pad_top = task.pad_top - on.phase_y,
           .pad_left = task.pad_left - on.phase_x,
           .tiles = {block.tiles_y, block.tiles_x, block.first + mine.begin, mine.end - mine.begin},
           .v = on.v + mine.begin * plan.v_row,
           .plane = plan.v_plane,
           .row = plan.v_row,
           .far = beyond_l2(task.n * task.groups * plan.group_in * in_map)});
}

}  // namespace

void run(const Task& task, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(task);
  if (plan.by_panels) {
    const Operands on = operands_of(task, plan, args, worker, worker.phase / 2);
    const Tiles all{plan.tiles_y, plan.tiles_x, 0, plan.tiles};
    if (worker.phase % 2 == 0) {
      transform_input(task, plan, on, all, split(plan.tiles, worker));
    } else {
      multiply_and_finish(task, plan, on, all, split(plan.panels.count, worker));
    }
    return;
  }
  const Range tiles = part_of({0, plan.tiles}, worker.index, worker.count);
  const int64_t blocks = ceil_div(tiles.end - tiles.begin, plan.block_tiles);
  const Range unit =
      part_of({0, phases_of(task) * task.groups * blocks}, worker.unit, worker.units);
  for (int64_t i = unit.begin; i < unit.end; ++i) {
    const Operands on = operands_of(task, plan, args, worker, i / blocks);
    const int64_t first = tiles.begin + i % blocks * plan.block_tiles;
    const Tiles block{plan.tiles_y, plan.tiles_x, first,
                      std::min(plan.block_tiles, tiles.end - first)};
    transform_input(task, plan, on, block, {0, block.count});
    multiply_and_finish(task, plan, on, block, {0, plan.panels.count});
  }
}

// A thread's first block of tiles reads U from memory, the next ones from where it fits. On a core
// that reads 10 GB/s, F(2,3) is faster than F(4,3) at 14x14x256, and no transform pays at 7x7x512.
double expectation(const Task& task) {
  constexpr double kExposed = 0.3;  // of the first block, where tiles do not stream
  constexpr double kL2BytesPerCycle = 40, kL3BytesPerCycle = 39;
  const Scheme& s = *task.scheme;
  // Of a vector of a tile: those of F(6,3) are more sums each, and more than the registers hold.
  const bool large = s.id == kF6.id;
  const double input_cost = large ? 4.4 : 2.9, output_cost = large ? 7.2 : 5;
  const Plan plan = make_plan(task);
  const TileSet& set = tile_set(task.target.isa);
  const auto in = static_cast<double>(plan.group_in), out = static_cast<double>(plan.group_out);
  const double products = s.products * s.products, targets = s.targets * s.targets;
  const double threads = task.target.threads, share = plan.by_panels ? 1 / threads : 1;
  const auto tiles = static_cast<double>(plan.block_tiles);
  TileWork work;
  add_panels(work, set, plan.panels, 1, plan.block_tiles,
             products * static_cast<double>(plan.group_c), [](int) { return 1; });
  const double multiply = work.steps * share;
  const double results = tile_applies(task.epilogue.activation) ? 0 : 6 * s.out * s.out;
  const double transform =
      tiles * (input_cost * products * in + (output_cost * targets + results) * out) * share;
  // U of a group and phase, in bytes.
  const auto kinds = static_cast<double>(phases_of(task) * task.groups);
  const auto all_bytes = static_cast<double>(filter_bytes(task));
  const double bytes = all_bytes / kinds * share;
  const double far = memory_cycles(task.target, bytes, !plan.by_panels);
  const bool near = all_bytes < static_cast<double>(cpu_info().l2_bytes);
  const bool kept = near || all_bytes < 0.75 * static_cast<double>(cpu_info().l3_bytes);
  const double first = overlapped(multiply, far, plan.block_tiles <= kStreamingRows ? 0 : kExposed);
  const double next =
      kept ? multiply + bytes / (near ? kL2BytesPerCycle : kL3BytesPerCycle) : first;
  const double passes =
      kinds * std::ceil(static_cast<double>(plan.tiles) / tiles) / (plan.by_panels ? 1 : threads);
  const double cycles =
      kinds * (first + transform) + std::max(0.0, passes - kinds) * (next + transform);
  const double flops = 2 * static_cast<double>(task.n * task.out_h * task.out_w) * s.taps * s.taps /
                       static_cast<double>(phases_of(task)) * static_cast<double>(plan.group_c) *
                       static_cast<double>(task.k);
  return expected_share(task.target, flops, cycles + kCallCycles);
}

}  // namespace stretto::kernels::winograd
