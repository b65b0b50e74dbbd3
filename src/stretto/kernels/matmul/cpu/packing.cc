// y = alpha * x * z: each worker packs a panel of z into its scratch, scaled on the way, and runs
// every row of x that it owns against it. Packing costs about one load and store per value of z and
// pays when m is a few rows or more. The limit is the multiply-add rate; for m below about four it
// is the memory bandwidth.
#include <algorithm>

#include "stretto/kernels/matmul/candidates.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/panel.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels::matmul {
namespace {

// Longest part of k that is packed at once: a panel stays in L2 beside the rows of x.
constexpr int64_t kMostSteps = 512;

struct Plan {
  int64_t lanes, most_steps, most_width;
  Panels panels;
  EvenTiles parts;  // of k
};

Plan make_plan(const MatmulProblem& p) {
  const TileSet& set = tile_set(p.target.isa);
  const int64_t blocks = (p.n + set.lanes - 1) / set.lanes;
  return {.lanes = set.lanes,
          .most_steps = std::min(p.k, kMostSteps),
          .most_width = std::min<int64_t>(blocks, TileSet::kMaxVectors) * set.lanes,
          .panels = choose_wide_panels(p.target, blocks, p.m, 1),
          .parts = EvenTiles(p.k, kMostSteps)};
}

Fit fits(const MatmulProblem& p) {
  if (p.k < 1 || p.m < 1 || p.n < 1) return Fit::no("empty");
  const Plan plan = make_plan(p);
  const double useful =
      static_cast<double>(p.n) / static_cast<double>(plan.panels.blocks * plan.lanes);
  return Fit::yes(0.92 * useful * p.m / (p.m + 14.0) * p.k / (p.k + 12.0));
}

// Floats of one worker: a packed panel, a tile for ragged columns.
int64_t thread_scratch(const Plan& plan) {
  return (plan.most_steps + TileSet::kMaxRows) * plan.most_width;
}

size_t scratch_bytes(const MatmulProblem& p) {
  return static_cast<size_t>(thread_scratch(make_plan(p)) * p.target.threads) * sizeof(float);
}

void run(const MatmulProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* z = static_cast<const float*>(args.inputs[1]);
  float* y = static_cast<float*>(args.outputs[0]);
  float* packed = reinterpret_cast<float*>(args.scratch) + worker.thread * thread_scratch(plan);
  float* spare = packed + plan.most_steps * plan.most_width;
  const int64_t stride = p.transposed ? p.k : p.n;

  Tile tile;
  tile.taps = &kNoTap;
  tile.a_row = p.k;
  tile.b = packed;
  tile.c_vector = plan.lanes;
  const GridPart grid = split_grid(p.m, p.batches() * plan.panels.count, worker, 0, 1);
  const EvenTiles tiles(grid.rows.end - grid.rows.begin, TileSet::kMaxRows);
  for (int64_t unit = grid.columns.begin; unit < grid.columns.end && tiles.count > 0; ++unit) {
    const int64_t batch = unit / plan.panels.count, panel = unit % plan.panels.count;
    const int64_t n0 = plan.panels.begin(panel) * plan.lanes;
    const int vectors = static_cast<int>(plan.panels.vectors(panel));
    const int64_t width = vectors * plan.lanes, columns = std::min(width, p.n - n0);
    const bool ragged = columns < width;
    const float* from = x + matmul_operand(p, p.broadcast_x, batch) * p.m * p.k;
    const float* with = z + matmul_operand(p, p.broadcast_z, batch) * p.k * p.n;
    const EvenTiles row_tiles(tiles.count, rows_in_l1(set.max_rows[vectors], p.k));
    for (int64_t part = 0; part < plan.parts.tiles; ++part) {
      const int64_t k0 = plan.parts.begin(part), steps = plan.parts.begin(part + 1) - k0;
      pack_panel(p.target.isa, with + (p.transposed ? n0 * p.k + k0 : k0 * p.n + n0), stride,
                 p.transposed != 0, steps, columns, width, p.alpha, packed);
      tile.steps = tile.last_steps = static_cast<int32_t>(steps);
      tile.accumulate = part != 0;
      for (int64_t t = 0; t < row_tiles.tiles; ++t) {
        const int64_t m = grid.rows.begin + row_tiles.begin(t);
        const int rows = static_cast<int>(row_tiles.begin(t + 1) - row_tiles.begin(t));
        float* c = y + (batch * p.m + m) * p.n + n0;
        tile.a = from + m * p.k + k0;
        tile.c = ragged ? spare : c;
        tile.c_row = ragged ? width : p.n;
        for (int r = 0; ragged && part != 0 && r < rows; ++r) {
          std::copy(c + r * p.n, c + r * p.n + columns, spare + r * width);
        }
        set.run[vectors][rows](tile);
        for (int r = 0; ragged && r < rows; ++r) {
          std::copy(spare + r * width, spare + r * width + columns, c + r * p.n);
        }
      }
    }
  }
}

}  // namespace

const Row kPacking{.name = "packing",
                   .fits = fits,
                   .packed_bytes = nullptr,
                   .pack = nullptr,
                   .scratch_bytes = scratch_bytes,
                   .run = run};

}  // namespace stretto::kernels::matmul
