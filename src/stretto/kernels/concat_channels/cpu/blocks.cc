// Whole blocks are contiguous: [N][C/B][H W B]. Limit: memory bandwidth.
#include <algorithm>
#include <cstring>

#include "stretto/kernels/concat_channels/candidates.h"

namespace stretto::kernels::concat_channels {
namespace {

constexpr int64_t kChunk = 4096;  // floats of one piece of work

Fit fits(const ConcatChannelsProblem& p) {
  const int block = p.target.block();
  for (int i = 0; i < p.inputs; ++i) {
    const bool tail = i + 1 == p.inputs;  // may bring its own padding along
    if (p.first[i] % block != 0) return Fit::no("a range starts inside a block");
    if (p.count[i] % block != 0 && !tail) return Fit::no("a range ends inside a block");
  }
  return Fit::yes(0.6);
}

void run(const ConcatChannelsProblem& p, const Args& args, const Worker& worker) {
  const int64_t block = p.target.block(), plane = p.h * p.w * block;
  const int64_t out_plane = (p.out_channels() + block - 1) / block * plane;
  int64_t at = 0;
  for (int i = 0; i < p.inputs; ++i) {
    const int64_t floats = (p.count[i] + block - 1) / block * plane;
    const int64_t chunks = (floats + kChunk - 1) / kChunk;
    const int64_t in_plane = (p.channels[i] + block - 1) / block * plane;
    const float* x = static_cast<const float*>(args.inputs[i]) + p.first[i] / block * plane;
    float* y = static_cast<float*>(args.outputs[0]) + at;
    const Range work = split(p.n * chunks, worker);
    for (int64_t job = work.begin; job < work.end; ++job) {
      const int64_t n = job / chunks, begin = job % chunks * kChunk;
      const int64_t count = std::min(kChunk, floats - begin);
      std::memcpy(y + n * out_plane + begin, x + n * in_plane + begin,
                  static_cast<size_t>(count) * sizeof(float));
    }
    at += floats;
  }
}

}  // namespace

const Row kBlocks{.name = "blocks", .fits = fits, .run = run};

}  // namespace stretto::kernels::concat_channels
