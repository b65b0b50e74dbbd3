// One copy per index; no arithmetic, so no instruction set of its own. Limit: memory bandwidth.
#include <cstring>

#include "stretto/kernels/gather/candidates.h"

namespace stretto::kernels::gather {
namespace {

template <typename Index, size_t kBytes>
void copy(const GatherProblem& p, const Args& args, const Worker& worker) {
  // kBytes 0: any size, known when running.
  const size_t bytes = kBytes ? kBytes : static_cast<size_t>(p.inner) * dtype_bytes(p.dtype);
  const std::byte* x = static_cast<const std::byte*>(args.inputs[0]);
  const Index* indices = static_cast<const Index*>(args.inputs[1]);
  std::byte* y = static_cast<std::byte*>(args.outputs[0]);
  const Range range = split(p.outer * p.indices, worker);
  if (range.begin == range.end) return;
  int64_t o = range.begin / p.indices, i = range.begin % p.indices;
  for (int64_t e = range.begin; e < range.end; ++e) {
    int64_t index = indices[i];
    if (index < 0) index += p.axis;
    std::byte* to = y + static_cast<size_t>(e) * bytes;
    if (index < 0 || index >= p.axis) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, x + static_cast<size_t>(o * p.axis + index) * bytes, bytes);
    }
    if (++i == p.indices) {
      i = 0;
      ++o;
    }
  }
}

template <typename Index>
void by_size(const GatherProblem& p, const Args& args, const Worker& worker) {
  switch (static_cast<size_t>(p.inner) * dtype_bytes(p.dtype)) {
    case 1:
      return copy<Index, 1>(p, args, worker);
    case 4:
      return copy<Index, 4>(p, args, worker);
    case 8:
      return copy<Index, 8>(p, args, worker);
    default:
      return copy<Index, 0>(p, args, worker);
  }
}

Fit fits(const GatherProblem&) { return Fit::yes(0.5); }

void run(const GatherProblem& p, const Args& args, const Worker& worker) {
  if (p.index_dtype == DType::kInt64) {
    by_size<int64_t>(p, args, worker);
  } else {
    by_size<int32_t>(p, args, worker);
  }
}

}  // namespace

const Row kRuns{.name = "runs", .fits = fits, .run = run};

}  // namespace stretto::kernels::gather
