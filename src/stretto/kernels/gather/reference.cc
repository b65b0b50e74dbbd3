#include "stretto/kernels/gather/candidates.h"

namespace stretto::kernels::gather {
namespace {

Fit fits(const GatherProblem&) { return Fit::yes(0.01); }

void run(const GatherProblem& p, const Args& args, const Worker& worker) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(p.dtype));
  const std::byte* x = static_cast<const std::byte*>(args.inputs[0]);
  std::byte* y = static_cast<std::byte*>(args.outputs[0]);
  const Range range = split(p.outer * p.indices * p.inner, worker);
  for (int64_t e = range.begin; e < range.end; ++e) {
    const int64_t o = e / p.inner / p.indices, i = e / p.inner % p.indices, j = e % p.inner;
    int64_t index = p.index_dtype == DType::kInt64 ? static_cast<const int64_t*>(args.inputs[1])[i]
                                                   : static_cast<const int32_t*>(args.inputs[1])[i];
    if (index < 0) index += p.axis;
    const bool inside = index >= 0 && index < p.axis;
    const int64_t from = inside ? ((o * p.axis + index) * p.inner + j) * bytes : 0;
    for (int64_t b = 0; b < bytes; ++b) y[e * bytes + b] = inside ? x[from + b] : std::byte{0};
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::gather
