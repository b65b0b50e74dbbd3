// One copy per index, or per run of indices that follow each other; no arithmetic, so no
// instruction set of its own. Limit: memory bandwidth.
#include <algorithm>
#include <cstring>

#include "stretto/kernels/gather/candidates.h"

namespace stretto::kernels::gather {
namespace {

// Entries e of the result [begin, end), of which each is `bytes` long; kBytes 0: any size, known
// when running.
template <typename Index, size_t kBytes>
void copy_each(const GatherProblem& p, const Args& args, int64_t begin, int64_t end) {
  const size_t bytes = kBytes ? kBytes : static_cast<size_t>(p.inner) * dtype_bytes(p.dtype);
  const std::byte* x = static_cast<const std::byte*>(args.inputs[0]);
  const Index* indices = static_cast<const Index*>(args.inputs[1]);
  std::byte* y = static_cast<std::byte*>(args.outputs[0]);
  if (begin == end) return;
  int64_t o = begin / p.indices, i = begin % p.indices;
  for (int64_t e = begin; e < end; ++e) {
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

// Indices that follow each other are found once and copied together for every outer entry, as the
// windows of a convolution are: a few hundred at a time, whose results stay in L1.
constexpr int64_t kBlock = 256;
constexpr int64_t kShortRun = 4;  // is faster copied one by one, on average

template <typename Index, size_t kBytes>
void copy_runs(const GatherProblem& p, const Args& args, const Worker& worker) {
  struct Run {
    int64_t from, count;  // from < 0: zeros
  };
  const size_t bytes = static_cast<size_t>(p.inner) * dtype_bytes(p.dtype);
  const std::byte* x = static_cast<const std::byte*>(args.inputs[0]);
  const Index* indices = static_cast<const Index*>(args.inputs[1]);
  std::byte* y = static_cast<std::byte*>(args.outputs[0]);
  const Range range = split(p.indices, worker);
  Run runs[kBlock];
  for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, range.end);
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      int64_t index = indices[i];
      if (index < 0) index += p.axis;
      if (index >= p.axis) index = -1;
      Run* last = count > 0 ? &runs[count - 1] : nullptr;
      if (last != nullptr && last->from >= 0 && index == last->from + last->count) {
        ++last->count;
      } else {
        runs[count++] = {index, 1};
      }
    }
    for (int64_t o = 0; o < p.outer; ++o) {
      if (count * kShortRun > end - begin) {
        copy_each<Index, kBytes>(p, args, o * p.indices + begin, o * p.indices + end);
        continue;
      }
      std::byte* to = y + static_cast<size_t>(o * p.indices + begin) * bytes;
      for (int64_t r = 0; r < count; ++r) {
        const size_t size = static_cast<size_t>(runs[r].count) * bytes;
        if (runs[r].from < 0) {
          std::memset(to, 0, size);
        } else {
          std::memcpy(to, x + static_cast<size_t>(o * p.axis + runs[r].from) * bytes, size);
        }
        to += size;
      }
    }
  }
}

template <typename Index, size_t kBytes>
void copy(const GatherProblem& p, const Args& args, const Worker& worker) {
  if (p.outer >= 4 && p.indices >= kBlock * p.target.threads) {
    return copy_runs<Index, kBytes>(p, args, worker);
  }
  const Range range = split(p.outer * p.indices, worker);
  copy_each<Index, kBytes>(p, args, range.begin, range.end);
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
