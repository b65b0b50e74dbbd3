#include <cstring>

#include "stretto/kernels/transpose/candidates.h"

namespace stretto::kernels::transpose {
namespace {

Fit fits(const TransposeProblem&) { return Fit::yes(0.01); }

void run(const TransposeProblem& p, const Args& args, const Worker& worker) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(p.dtype));
  int64_t strides[TransposeProblem::kMaxRank], count = 1;
  for (int k = p.rank - 1; k >= 0; --k) {
    strides[k] = count;
    count *= p.dims[k];
  }
  const Range range = split(count, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    int64_t from = 0;
    for (int64_t k = p.rank - 1, rest = i; k >= 0; --k) {
      from += rest % p.dims[p.perm[k]] * strides[p.perm[k]];
      rest /= p.dims[p.perm[k]];
    }
    std::memcpy(static_cast<std::byte*>(args.outputs[0]) + i * bytes,
                static_cast<const std::byte*>(args.inputs[0]) + from * bytes, bytes);
  }
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::transpose
