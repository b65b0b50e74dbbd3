#include "stretto/kernels/cycles.h"

#include "stretto/base/machine_rates.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels {
namespace {

constexpr double kLoss = 1.05;      // of a tile, against the measured peak
constexpr double kStore = 0.45;     // of a vector of results
constexpr double kFinish = 7.4;     // to apply an activation that tiles do not apply themselves
constexpr double kSlower = 1.05;    // than a stream that nothing but reads
constexpr double kNextPiece = 100;  // until weights come that were not fetched ahead
constexpr double kL3BytesPerCycle = 18.5;

double cycles_per_second(const Target& target) {
  return peak_flops(target.isa) / (4 * target.lanes());
}

}  // namespace

void TileWork::add(double count, double rows, double vectors, double depth, double parts) {
  // Two multiply-adds or two loads in a cycle, but of the vectors of B, from L2, one. Each step
  // waits for the one before.
  const double step = std::max({rows * vectors / 2, (rows + vectors) / 2, vectors, kLatency});
  starts += count * parts;
  steps += count * depth * step;
  results += count * rows * vectors;
}

double tile_cycles(const TileWork& work, double start, const Epilogue& epilogue) {
  const double finish = tile_applies(epilogue.activation) ? 0 : kFinish;
  return start * work.starts + kLoss * work.steps + (kStore + finish) * work.results;
}

double memory_cycles(const Target& target, double bytes, bool shared) {
  const double rate = stream_bytes_per_second(shared ? 1 : target.threads);
  return kSlower * bytes * cycles_per_second(target) / rate;
}

double run_cycles(const Target& target, double compute, const WeightWork& weights) {
  const double pass = compute / weights.passes;
  const double bytes = weights.bytes * weights.part;
  const double first =
      memory_cycles(target, bytes, weights.part == 1) + kNextPiece * weights.pieces * weights.part;
  double next = 0;
  if (bytes > 0.75 * static_cast<double>(cpu_info().l3_bytes)) {
    next = first;
  } else if (bytes > static_cast<double>(cpu_info().l2_bytes)) {
    next = bytes / kL3BytesPerCycle;
  }
  return kCallCycles + overlapped(pass, first, weights.exposed) +
         (weights.passes - 1) * overlapped(pass, next, weights.exposed);
}

double map_cycles(const Target& target, double bytes, double part) {
  // Fitted to 600 depthwise convolutions on Zen 5 (see cycles.h).
  constexpr double kL2BytesPerCycle = 190, kL3BytesPerCycle = 50;
  const double own = bytes * part;
  if (own < static_cast<double>(cpu_info().l1d_bytes)) return 0;
  if (own < 0.9 * static_cast<double>(cpu_info().l2_bytes)) return own / kL2BytesPerCycle;
  if (bytes < 0.5 * static_cast<double>(cpu_info().l3_bytes)) return own / kL3BytesPerCycle;
  return memory_cycles(target, own, false);
}

double expected_share(const Target& target, double flops, double cycles) {
  if (flops == 0) return 1;
  return flops / (4 * target.lanes() * target.threads * cycles);
}

}  // namespace stretto::kernels
