// y = x * w with w packed offline into panels [panel][k][vectors * lanes] for the register tile.
//
// Order of work: part of k whose rows of x fit L2 / block of rows / panel of weights / tile; sums
// of all parts but the last wait in y. The limit is the multiply-add rate; with few rows (m below
// about six) it is the memory bandwidth at which the weights stream by.
#include <algorithm>

#include "stretto/base/cpu.h"
#include "stretto/kernels/gemm/candidates.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/tile.h"
#include "stretto/kernels/weights.h"

namespace stretto::kernels::gemm {
namespace {

// Longest part of k: a panel of it, two vectors wide, is a tenth of a 1 MB L2.
constexpr int64_t kMostSteps = 1024;

struct Plan {
  int64_t lanes, columns;  // columns: n in whole vectors
  Panels panels;
  int64_t parts;         // of k
  int64_t row_block;     // rows of x whose part of k fits L2 beside a panel
  int64_t ragged_width;  // columns of the last panel's scratch, 0 when y can hold whole vectors

  int64_t begin(int64_t part, int64_t k) const { return part * k / parts / 4 * 4; }
  int64_t end(int64_t part, int64_t k) const { return part + 1 == parts ? k : begin(part + 1, k); }
};

Plan make_plan(const GemmProblem& p) {
  const TileSet& set = tile_set(p.target.isa);
  const int64_t lanes = set.lanes, blocks = (p.n + lanes - 1) / lanes;
  // Few rows leave each panel of weights in one piece, and are themselves read from L2.
  const bool streams = p.m <= kStreamingRows &&
                       p.m * p.k * static_cast<int64_t>(sizeof(float)) <= cpu_info().l2_bytes / 8;
  const int64_t parts = streams ? 1 : std::max<int64_t>(1, (p.k + kMostSteps - 1) / kMostSteps);
  Plan plan{.lanes = lanes,
            .columns = blocks * lanes,
            .panels = choose_wide_panels(p.target, blocks, p.m, p.target.threads),
            .parts = parts,
            .row_block = 0,
            .ragged_width = 0};
  const int64_t part_bytes = (p.k / parts + 4) * static_cast<int64_t>(sizeof(float));
  plan.row_block =
      std::clamp<int64_t>(cpu_info().l2_bytes * 5 / 8 / part_bytes, 2 * TileSet::kMaxRows, 1 << 20);
  if (p.n % lanes != 0) plan.ragged_width = plan.panels.vectors(plan.panels.count - 1) * lanes;
  return plan;
}

Fit fits(const GemmProblem& p) {
  const Plan plan = make_plan(p);
  const double useful = static_cast<double>(p.n) / static_cast<double>(plan.columns);
  const double reuse = weight_reuse(p.target, static_cast<double>(p.m), 6);
  const double depth = p.k / (p.k + 8.0);
  return Fit::yes(0.95 * useful * reuse * depth);
}

std::string packing(const GemmProblem& p) {
  const Plan plan = make_plan(p);
  return packing_text("gemm_panels", 1, plan.lanes, plan.panels.count);
}

size_t packed_bytes(const GemmProblem& p) {
  return static_cast<size_t>(make_plan(p).columns * (p.k + 1)) * sizeof(float);
}

void pack(const GemmProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  float* out = reinterpret_cast<float*>(packed);
  for (int64_t n = 0; n < plan.columns; ++n) {
    *out++ = p.epilogue.bias && n < p.n ? constants[1].values<float>()[n] : 0;
  }
  const auto weight = constants[0].values<float>();
  const int64_t step_n = p.transposed ? p.k : 1, step_k = p.transposed ? 1 : p.n;
  for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
    const int64_t n0 = plan.panels.begin(panel) * plan.lanes;
    const int64_t width = plan.panels.vectors(panel) * plan.lanes;
    for (int64_t k = 0; k < p.k; ++k) {
      for (int64_t j = 0; j < width; ++j) {
        *out++ = n0 + j < p.n ? weight[(n0 + j) * step_n + k * step_k] : 0;
      }
    }
  }
}

size_t scratch_bytes(const GemmProblem& p) {
  return static_cast<size_t>(p.m * make_plan(p).ragged_width) * sizeof(float);
}

void run(const GemmProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* y = static_cast<float*>(args.outputs[0]);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + plan.columns;
  const bool applies = tile_applies(p.epilogue.activation);

  Tile tile;
  tile.taps = &kNoTap;
  tile.a_row = p.k;
  tile.c_vector = plan.lanes;
  tile.far_results = beyond_l2(p.m * p.n / worker.count);
  const GridPart grid = split_grid(p.m, plan.panels.count, worker, p.m, p.n);
  const auto panel_weights = [&](int64_t panel, int64_t k) {
    return weights + plan.panels.begin(panel) * plan.lanes * p.k +
           k * plan.panels.vectors(panel) * plan.lanes;
  };
  const EvenTiles row_blocks(grid.rows.end - grid.rows.begin, static_cast<int>(plan.row_block));
  for (int64_t part = 0; part < plan.parts; ++part) {
    const int64_t k0 = plan.begin(part, p.k), steps = plan.end(part, p.k) - k0;
    const bool last = part + 1 == plan.parts;
    tile.steps = tile.last_steps = static_cast<int32_t>(steps);
    tile.accumulate = part != 0;
    for (int64_t block = 0; block < row_blocks.tiles; ++block) {
      const int64_t begin = grid.rows.begin + row_blocks.begin(block);
      const int64_t count = row_blocks.begin(block + 1) - row_blocks.begin(block);
      for (int64_t panel = grid.columns.begin; panel < grid.columns.end; ++panel) {
        const int64_t n0 = plan.panels.begin(panel) * plan.lanes;
        const int vectors = static_cast<int>(plan.panels.vectors(panel));
        const int64_t width = vectors * plan.lanes;
        const bool ragged = n0 + width > p.n;
        tile.b = panel_weights(panel, k0);
        tile.bias = bias + n0;
        tile.c_row = ragged ? width : p.n;
        if (last && applies && !ragged) set_epilogue(tile, p.epilogue);
        // Where the weights of the next panel lie, or those of the next part.
        const float* next = tile.b + p.k * width;
        if (panel + 1 == grid.columns.end && !(last && block + 1 == row_blocks.tiles)) {
          const bool again = block + 1 < row_blocks.tiles;
          next = panel_weights(grid.columns.begin, again ? k0 : k0 + steps);
        }
        const EvenTiles tiles(count, rows_in_l1(set.max_rows[vectors], p.k));
        for (int64_t t = 0; t < tiles.tiles; ++t) {
          const int64_t m = begin + tiles.begin(t);
          const int rows = static_cast<int>(begin + tiles.begin(t + 1) - m);
          const float* extra = residual ? residual + m * p.n + n0 : nullptr;
          float* c = y + m * p.n + n0;
          tile.a = x + m * p.k + k0;
          set_prefetch(tile, next, steps * width, t, tiles.tiles, count);
          tile.c = ragged ? reinterpret_cast<float*>(args.scratch) + m * width : c;
          const bool in_tile =
              last && !ragged && (applies || !p.epilogue.residual_after_activation);
          tile.residual = in_tile ? extra : nullptr;
          set.run[vectors][rows](tile);
          if (!last) continue;
          if (ragged) {
            set.finish_columns(p.epilogue, tile.c, width, c, p.n, rows, static_cast<int>(p.n - n0),
                               extra);
          } else if (!applies) {
            set.finish(p.epilogue, c, p.n, plan.lanes, rows, vectors, extra);
          }
        }
        tile.relu = tile.clamp = false;
      }
    }
  }
}

}  // namespace

const Row kPacked{.name = "packed",
                  .fits = fits,
                  .packed_bytes = packed_bytes,
                  .pack = pack,
                  .packing = packing,
                  .scratch_bytes = scratch_bytes,
                  .run = run};

}  // namespace stretto::kernels::gemm
