#include <cmath>
#include <limits>

#include "stretto/kernels/softmax/candidates.h"

namespace stretto::kernels::softmax {
namespace {

Fit fits(const SoftmaxProblem&) { return Fit::yes(0.001); }

void run(const SoftmaxProblem& p, const Args& args, const Worker& worker) {
  const Range slices = split(p.outer * p.inner, worker);
  for (int64_t s = slices.begin; s < slices.end; ++s) {
    const int64_t base = s / p.inner * p.axis * p.inner + s % p.inner;
    const float* x = static_cast<const float*>(args.inputs[0]) + base;
    float* y = static_cast<float*>(args.outputs[0]) + base;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < p.axis; ++i) largest = std::fmax(largest, x[i * p.inner]);
    for (int64_t i = 0; i < p.axis; ++i) sum += std::exp(x[i * p.inner] - largest);
    for (int64_t i = 0; i < p.axis; ++i) {
      const double shifted = x[i * p.inner] - largest;
      y[i * p.inner] =
          static_cast<float>(p.log ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::softmax
