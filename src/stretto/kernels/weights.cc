#include "stretto/kernels/weights.h"

#include "stretto/base/machine_rates.h"

namespace stretto::kernels {

double weight_bytes_per_cycle(const Target& target) {
  const double cycles_per_s = peak_flops(target.isa) / (4 * target.lanes());
  return stream_bytes_per_second(target.threads) / cycles_per_s;
}

double weight_reuse(const Target& target, double pixels, double cost) {
  constexpr double kFitted = 10.7;  // bytes per cycle: 48 GB/s at 4.5 GHz
  return pixels / (pixels + cost * kFitted / weight_bytes_per_cycle(target));
}

}  // namespace stretto::kernels
