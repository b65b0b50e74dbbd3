#include "stretto/kernels/weights.h"

#include "stretto/base/cpu.h"
#include "stretto/base/memory_rate.h"

namespace stretto::kernels {
namespace {

double cycles_per_s(const Target& target) { return peak_flops(target.isa) / (4 * target.lanes()); }

}  // namespace

double weight_bytes_per_cycle(const Target& target) {
  return stream_bytes_per_second(target.threads) / cycles_per_s(target);
}

double outer_bytes_per_cycle(const Target& target) {
  return memory_rate().again / cycles_per_s(target);
}

double weight_reuse(const Target& target, double pixels, double cost) {
  constexpr double kFitted = 10.7;  // bytes per cycle: 48 GB/s at 4.5 GHz
  return pixels / (pixels + cost * kFitted / weight_bytes_per_cycle(target));
}

}  // namespace stretto::kernels
