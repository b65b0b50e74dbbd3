// Few queries, as in a step of decoding: keys and values are read once, where they lie, and nothing
// is packed. Keys that the mask hides before the first and behind the last visible one are not
// read, so a cache costs what is used of it. Limit: the rate at which keys and values come from
// memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/kernels/attention/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/attention/cpu/stream.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/activation-inl.h"
#include "stretto/kernels/simd/memory-inl.h"

#ifndef STRETTO_KERNELS_ATTENTION_STREAM_
#define STRETTO_KERNELS_ATTENTION_STREAM_
namespace stretto::kernels::attention {

constexpr int64_t kMostQueries = 4;  // with more, packed tiles are faster

inline int64_t score_floats(const AttentionProblem& p) { return round_up(p.sk, 16); }

}  // namespace stretto::kernels::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace attention_stream {

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

constexpr int64_t kLanes = hn::MaxLanes(Tag());
constexpr int64_t kSums = 8;  // vectors of results at a time
constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Beside a visible key the weight of one whose mask is this low is zero.
constexpr float kHidden = -1e30f;

// Sums of one query with four keys; `count` of them exist, the others repeat the last.
HWY_INLINE void dots(const float* q, const float* const (&k)[4], int64_t dim, float* scores,
                     int64_t count) {
  const Tag d;
  V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t c = 0;
  for (; c + kLanes <= dim; c += kLanes) {
    const V x = hn::LoadU(d, q + c);
    for (int i = 0; i < 4; ++i) sums[i] = hn::MulAdd(x, hn::LoadU(d, k[i] + c), sums[i]);
  }
  if (c < dim) {
    const V x = load_n(d, q + c, dim - c);
    for (int i = 0; i < 4; ++i) sums[i] = hn::MulAdd(x, load_n(d, k[i] + c, dim - c), sums[i]);
  }
  for (int64_t i = 0; i < count; ++i) scores[i] = sum_lanes(d, sums[i]);
}

// Raw scores become weights; returns their sum.
HWY_INLINE float soften(float* scores, int64_t count, float scale, const float* mask,
                        int64_t mask_step) {
  const Tag d;
  float top = kLowest;
  for (int64_t j = 0; j < count; ++j) {
    scores[j] = scores[j] * scale + (mask == nullptr ? 0.0f : mask[j * mask_step]);
    top = std::max(top, scores[j]);
  }
  const V shift = hn::Set(d, top == kLowest ? 0.0f : top);
  V total = hn::Zero(d);
  for (int64_t j = 0; j < count; j += kLanes) {
    const int64_t n = HWY_MIN(kLanes, count - j);
    const V s = load_n(d, scores + j, n, kLowest);
    const V e = exp_nonpositive(d, hn::Sub(s, shift));
    total = hn::Add(total,
                    n < kLanes ? hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), e) : e);
    store_n(e, d, scores + j, n);
  }
  return sum_lanes(d, total);
}

// Columns [0, columns) of the sum of weights[j] * v[j], times `factor`; kCount whole vectors hold
// them.
template <int kCount>
HWY_INLINE void mix(const float* weights, int64_t count, const float* v, int64_t row,
                    int64_t columns, float factor, float* out) {
  const Tag d;
  V sums[kCount];
  for (int i = 0; i < kCount; ++i) sums[i] = hn::Zero(d);
  const int64_t last = columns - (kCount - 1) * kLanes;
  for (int64_t j = 0; j < count; ++j) {
    const V w = hn::Set(d, weights[j]);
    const float* from = v + j * row;
    for (int i = 0; i + 1 < kCount; ++i) {
      sums[i] = hn::MulAdd(w, hn::LoadU(d, from + i * kLanes), sums[i]);
    }
    sums[kCount - 1] =
        hn::MulAdd(w, load_n(d, from + (kCount - 1) * kLanes, last), sums[kCount - 1]);
  }
  const V f = hn::Set(d, factor);
  for (int i = 0; i + 1 < kCount; ++i) hn::StoreU(hn::Mul(sums[i], f), d, out + i * kLanes);
  store_n(hn::Mul(sums[kCount - 1], f), d, out + (kCount - 1) * kLanes, last);
}

}  // namespace attention_stream

void attention_stream_run(const AttentionProblem& p, const Args& args, const Worker& worker) {
  using namespace attention_stream;
  float* scores =
      reinterpret_cast<float*>(args.scratch) + worker.thread * attention::score_floats(p);
  const auto input = [&](const AttentionOperand& a, int64_t b, int64_t h) {
    return static_cast<const float*>(args.inputs[a.input]) + a.offset + b * a.strides[0] +
           h * a.strides[1];
  };
  const Range work = split(p.batch * p.heads, worker);
  for (int64_t job = work.begin; job < work.end; ++job) {
    const int64_t b = job / p.heads, h = job % p.heads, kv = h / (p.heads / p.kv_heads);
    const float* keys = input(p.k, b, kv);
    const float* values = input(p.v, b, kv);
    for (int64_t r = 0; r < p.sq; ++r) {
      const float* q = input(p.q, b, h) + r * p.q.strides[2];
      float* out = static_cast<float*>(args.outputs[0]) + p.out.offset + b * p.out.strides[0] +
                   h * p.out.strides[1] + r * p.out.strides[2];
      int64_t first = 0, end = p.sk;
      const float* mask = nullptr;
      const int64_t step = p.mask.strides[3];
      if (p.has_mask) {
        mask = input(p.mask, b, h) + r * p.mask.strides[2];
        while (first < p.sk && mask[first * step] <= kHidden) ++first;
        if (first == p.sk) {
          first = 0;  // nothing is visible: then all count alike
        } else {
          while (mask[(end - 1) * step] <= kHidden) --end;
        }
        mask += first * step;
      }
      const int64_t count = end - first;
      for (int64_t j = 0; j < count; j += 4) {
        const int64_t n = HWY_MIN(4, count - j);
        const float* k[4];
        for (int64_t i = 0; i < 4; ++i) {
          k[i] = keys + (first + j + HWY_MIN(i, n - 1)) * p.k.strides[2];
        }
        dots(q, k, p.dim, scores + j, n);
      }
      const float sum = soften(scores, count, p.scale, mask, step);
      if (p.masked_zero && !(sum > 0)) {
        std::fill_n(out, p.dim_v, 0.0f);
        continue;
      }
      for (int64_t c = 0; c < p.dim_v; c += kSums * kLanes) {
        const int64_t columns = HWY_MIN(kSums * kLanes, p.dim_v - c);
        const float* v = values + first * p.v.strides[2] + c;
        const int64_t row = p.v.strides[2];
        const float factor = 1.0f / sum;
        switch ((columns + kLanes - 1) / kLanes) {
          case 1:
            mix<1>(scores, count, v, row, columns, factor, out + c);
            break;
          case 2:
            mix<2>(scores, count, v, row, columns, factor, out + c);
            break;
          case 3:
            mix<3>(scores, count, v, row, columns, factor, out + c);
            break;
          case 4:
            mix<4>(scores, count, v, row, columns, factor, out + c);
            break;
          case 5:
            mix<5>(scores, count, v, row, columns, factor, out + c);
            break;
          case 6:
            mix<6>(scores, count, v, row, columns, factor, out + c);
            break;
          case 7:
            mix<7>(scores, count, v, row, columns, factor, out + c);
            break;
          default:
            mix<8>(scores, count, v, row, columns, factor, out + c);
        }
      }
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::attention {
namespace {

Fit fits(const AttentionProblem& p) {
  if (p.sk == 0) return Fit::no("no keys");
  if (p.rows) return Fit::no("samples of several lengths");
  if (p.sq > kMostQueries) return Fit::no("more than 4 queries");
  for (const AttentionOperand* a : {&p.q, &p.k, &p.v, &p.out}) {
    if (a->strides[3] != 1) return Fit::no("the numbers of a head are not neighbours");
  }
  return Fit::yes(0.7);
}

size_t scratch_bytes(const AttentionProblem& p) {
  return static_cast<size_t>(p.target.threads * score_floats(p)) * sizeof(float);
}

void run(const AttentionProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, attention_stream_run)(p, args, worker);
}

}  // namespace

const Row kStream{.name = "stream", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::attention
#endif
