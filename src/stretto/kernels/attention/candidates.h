// The rows of attention, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include <algorithm>

#include "stretto/kernels/attention/problem.h"

namespace stretto::kernels::attention {

using Row = Candidate<AttentionProblem>;

// Rows of sample b of a problem with `rows`. Whatever is in starts, they lie within q, k, v and
// out.
struct SampleRows {
  int64_t begin = 0, count = 0;
};
inline SampleRows sample_rows(const AttentionProblem& p, const Args& args, int64_t b) {
  const int32_t* starts = static_cast<const int32_t*>(args.inputs[p.inputs]);
  const int64_t begin = std::clamp<int64_t>(starts[b], 0, p.rows);
  return {begin, std::clamp<int64_t>(starts[b + 1] - begin, 0, std::min(p.sq, p.rows - begin))};
}

// Zeros for the rows behind the last sample.
inline void clear_behind(const AttentionProblem& p, const Args& args) {
  const int64_t end = static_cast<const int32_t*>(args.inputs[p.inputs])[p.batch];
  float* out = static_cast<float*>(args.outputs[0]) + p.out.offset;
  for (int64_t row = std::clamp<int64_t>(end, 0, p.rows); row < p.rows; ++row) {
    for (int64_t h = 0; h < p.heads; ++h) {
      float* to = out + h * p.out.strides[1] + row * p.out.strides[2];
      for (int64_t c = 0; c < p.dim_v; ++c) to[c * p.out.strides[3]] = 0;
    }
  }
}

extern const Row kFlash;      // packed tiles, scores in the cache, running softmax
extern const Row kStream;     // few queries: reads keys and values where they lie
extern const Row kReference;  // in double

}  // namespace stretto::kernels::attention
