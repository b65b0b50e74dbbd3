#include <cmath>
#include <limits>

#include "stretto/kernels/access.h"
#include "stretto/kernels/pool2d/candidates.h"

namespace stretto::kernels::pool2d {
namespace {

Fit fits(const Pool2dProblem&) { return Fit::yes(0.001); }

template <typename T>
void run_as(const Pool2dProblem& p, const Args& args, const Worker& worker) {
  using Limits = std::numeric_limits<T>;
  constexpr T kLeast = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const Access from({p.n, p.c, p.h, p.w}, p.layout, p.target.block());
  const Access to({p.n, p.c, p.out_h, p.out_w}, p.layout, p.target.block());
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  const Range planes = split(p.n * p.c, worker);
  for (int64_t nc = planes.begin; nc < planes.end; ++nc) {
    for (int64_t at = 0; at < p.out_h * p.out_w; ++at) {
      const int64_t oy = at / p.out_w, ox = at % p.out_w;
      double largest = kLeast, sum = 0;
      int64_t real = 0, padded = 0;
      for (int64_t r = 0; r < p.kernel_h; ++r) {
        for (int64_t s = 0; s < p.kernel_w; ++s) {
          const int64_t iy = oy * p.stride_h + r * p.dilation_h - p.pad_top;
          const int64_t ix = ox * p.stride_w + s * p.dilation_w - p.pad_left;
          if (iy < p.h + p.pad_bottom && ix < p.w + p.pad_right) ++padded;
          if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
          const double v = x[from.at(nc / p.c, nc % p.c, iy, ix)];
          ++real;
          sum += v;
          if (!(v <= largest) && !std::isnan(largest)) largest = v;
        }
      }
      const int64_t count = p.count_include_pad ? padded : real;
      const double average = count ? sum / count : 0;
      y[to.at(nc / p.c, nc % p.c, oy, ox)] =
          static_cast<T>(p.kind == Pooling::kMax ? largest : average);
    }
  }
}

void run(const Pool2dProblem& p, const Args& args, const Worker& worker) {
  switch (p.dtype) {
    case DType::kUInt8:
      return run_as<uint8_t>(p, args, worker);
    case DType::kInt8:
      return run_as<int8_t>(p, args, worker);
    default:
      return run_as<float>(p, args, worker);
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::pool2d
