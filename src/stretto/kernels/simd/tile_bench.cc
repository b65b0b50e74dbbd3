// Every register tile alone, with its operands in L2 or nearer: as rows of a matrix (gemm) and on a
// map blocked by channels (1x1 convolution). `peak` is the share of what peak_flops() measures once
// at the start; on a machine whose clock moves, compare builds in turns.
#include <benchmark/benchmark.h>

#include <string>

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/simd/tile.h"
#include "stretto/tensor/tensor.h"

namespace stretto::kernels {
namespace {

constexpr int kTiles = 20;

void time_tile(benchmark::State& state, Isa isa, int rows, int vectors, int64_t depth, bool map) {
  const TileSet& set = tile_set(isa);
  const int64_t lanes = set.lanes, width = vectors * lanes, count = int64_t{kTiles} * rows;
  Tensor a(DType::kFloat32, {count * depth}), b(DType::kFloat32, {depth * width});
  Tensor c(DType::kFloat32, {count * width});
  for (Tensor* t : {&a, &b}) {
    for (float& x : t->mutable_values<float>()) x = 0.5f;
  }
  Tile tile{.taps = &kNoTap};
  tile.b = b.values<float>().data();
  if (map) {
    tile.a_row = tile.c_row = lanes;
    tile.a_group = tile.c_vector = count * lanes;
    tile.b_group = lanes * width;
    tile.groups = static_cast<int32_t>(depth / lanes);
    tile.steps = tile.last_steps = static_cast<int32_t>(lanes);
  } else {
    tile.a_row = depth;
    tile.c_row = width;
    tile.c_vector = lanes;
    tile.steps = tile.last_steps = static_cast<int32_t>(depth);
  }
  for (auto _ : state) {
    for (int64_t r = 0; r < count; r += rows) {
      tile.a = a.values<float>().data() + r * tile.a_row;
      tile.c = c.mutable_values<float>().data() + r * tile.c_row;
      set.run[vectors][rows](tile);
    }
  }
  const double flops = 2.0 * static_cast<double>(count * depth * width);
  state.counters["GFLOPs"] = benchmark::Counter(
      flops / 1e9, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  state.counters["peak"] =
      benchmark::Counter(flops / peak_flops(isa), benchmark::Counter::kIsIterationInvariantRate);
}

const int kRegistered = [] {
  const Isa isa = usable_isa();
  for (const bool map : {false, true}) {
    for (const int vectors : {2, 3}) {
      const int most = tile_set(isa).max_rows[vectors];
      for (const int rows : {most, most - 1}) {
        for (const int64_t depth : {64, 256, 768}) {
          const std::string name = "tile/" + std::string(isa_name(isa)) +
                                   (map ? "/map/" : "/matrix/") + std::to_string(rows) + "x" +
                                   std::to_string(vectors) + "/" + std::to_string(depth);
          benchmark::RegisterBenchmark(name.c_str(), time_tile, isa, rows, vectors, depth, map);
        }
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace stretto::kernels
