#include "stretto/kernels/weights.h"

#include "stretto/base/machine_rates.h"

namespace stretto::kernels {

double weight_bytes_per_cycle(const Target& target) {
  // Fitted: a kernel waits for less than the stream takes, because it multiplies meanwhile. Without
  // this factor, the default program of CenterNet took 5 % longer on a Zen 3.
  constexpr double kHidden = 2.25;
  const double cycles_per_s = peak_flops(target.isa) / (4 * target.lanes());
  return kHidden * stream_bytes_per_second(target.threads) / cycles_per_s;
}

double weight_reuse(const Target& target, double pixels, double cost) {
  constexpr double kFitted = 10.7;  // weight_bytes_per_cycle() of the machine of the fit
  return pixels / (pixels + cost * kFitted / weight_bytes_per_cycle(target));
}

}  // namespace stretto::kernels
