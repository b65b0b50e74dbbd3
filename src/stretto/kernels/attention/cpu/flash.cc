// Per head: k and v are packed into panels of two vectors; then, for blocks of queries and chunks
// of keys, scores = q k^T by a register tile, softmax on them while they lie in the second-level
// cache, and out += weights v by the same tile. Limit: two fused multiply-adds per cycle; at
// 512-bit the exponentials of a 128-token, 64-wide head cost about a fifth of that time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/kernels/attention/candidates.h"
#include "stretto/kernels/simd/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/attention/cpu/flash.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/activation-inl.h"
#include "stretto/kernels/simd/memory-inl.h"

#ifndef STRETTO_KERNELS_ATTENTION_FLASH_
#define STRETTO_KERNELS_ATTENTION_FLASH_
namespace stretto::kernels::attention {

constexpr int64_t kQueries = 48;  // rows of a block: 4 tiles of 12, or 8 of 6
constexpr int64_t kKeys = 512;    // columns of a chunk: 96 KB of scores

// One thread's working memory, in floats from its start.
struct FlashPlan {
  int64_t panel;        // columns of a panel: two vectors
  int64_t keys, dim_v;  // padded to panels
  int64_t k_at, v_at, q_at, scores_at, out_at, top_at, sum_at, floats;
};

inline FlashPlan make_plan(const AttentionProblem& p) {
  FlashPlan plan{};
  plan.panel = 2 * p.target.lanes();
  plan.keys = round_up(p.sk, plan.panel);
  plan.dim_v = round_up(p.dim_v, plan.panel);
  int64_t at = 0;
  const auto take = [&](int64_t floats) {
    const int64_t start = at;
    at += round_up(floats, 16);
    return start;
  };
  plan.k_at = take(plan.keys * p.dim);
  plan.v_at = take(p.sk * plan.dim_v);
  plan.q_at = take(kQueries * p.dim);
  plan.scores_at = take(kQueries * (kKeys + 16));
  plan.out_at = take(kQueries * plan.dim_v);
  plan.top_at = take(kQueries);
  plan.sum_at = take(kQueries);
  plan.floats = at;
  return plan;
}

// A block of queries of one head of one sample.
struct FlashJob {
  int64_t sample, job;  // the job counts the sample's blocks, those of a head in a row
};

// The blocks of samples of several lengths, by what they cost: a block of queries costs as much as
// its sample has keys, and some more for what does not depend on them.
class FlashWork {
 public:
  FlashWork(const AttentionProblem& p, const Args& args) : p_(p), args_(args) {
    for (int64_t b = 0; b < p.batch; ++b) total_ += jobs(b) * cost(b);
  }

  int64_t blocks(int64_t b) const {
    return (sample_rows(p_, args_, b).count + kQueries - 1) / kQueries;
  }
  int64_t jobs(int64_t b) const { return p_.heads * blocks(b); }

  // Where a worker's unit begins; where the next one begins is its end. Units begin with whole
  // heads, so that each is packed once, and shares anywhere.
  FlashJob begin(const Worker& worker, int unit) const {
    const int64_t from = total_ * worker.index / worker.count;
    const int64_t to = total_ * (worker.index + 1) / worker.count;
    if (unit == 0) return find(from, false);
    if (unit == worker.units) return find(to, false);
    const FlashJob job = find(from + (to - from) * unit / worker.units, true);
    return std::min(job, find(to, false), [](const FlashJob& a, const FlashJob& b) {
      return a.sample != b.sample ? a.sample < b.sample : a.job < b.job;
    });
  }

 private:
  static constexpr int64_t kConstantCost = 32;  // in keys

  int64_t cost(int64_t b) const { return sample_rows(p_, args_, b).count + kConstantCost; }

  // The first job that begins at `at` or behind it; `whole`: of a head.
  FlashJob find(int64_t at, bool whole) const {
    for (int64_t b = 0; b < p_.batch; ++b) {
      const int64_t all = jobs(b) * cost(b);
      if (at < all) {
        int64_t job = (at + cost(b) - 1) / cost(b);
        if (whole) job = round_up(job, blocks(b));
        if (job < jobs(b)) return {b, job};
        return {b + 1, 0};
      }
      at -= all;
    }
    return {p_.batch, 0};
  }

  const AttentionProblem& p_;
  const Args& args_;
  int64_t total_ = 0;
};

}  // namespace stretto::kernels::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace attention_flash {

using attention::FlashPlan;
using attention::kKeys;
using attention::kQueries;
using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

constexpr int64_t kLanes = hn::MaxLanes(Tag());
constexpr int64_t kPanel = 2 * kLanes;
constexpr int64_t kScoreStride = kKeys + 16;  // rows of scores start in different cache sets
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Columns of the panel at `column` of `columns`: two vectors, or the one that is left.
HWY_INLINE int64_t panel_width(int64_t columns, int64_t column) {
  return columns - column > kLanes ? kPanel : kLanes;
}

// c[rows][columns] (+)= a[rows][depth] * panels, `panels` a sequence of [panel_depth][panel_width],
// of which `depth` rows from `first` on are used. Writes whole vectors.
HWY_INLINE void multiply(const TileSet& set, int64_t rows, int64_t columns, int64_t first,
                         int64_t depth, const float* a, int64_t a_stride, const float* panels,
                         int64_t panel_depth, float* c, int64_t c_stride, bool accumulate) {
  Tile tile{.a_row = a_stride, .taps = &kNoTap, .c_row = c_stride, .c_vector = kLanes};
  tile.steps = tile.last_steps = static_cast<int32_t>(depth);
  tile.accumulate = accumulate;
  for (int64_t column = 0; column < columns; column += kPanel) {
    const int64_t width = panel_width(columns, column), vectors = width / kLanes;
    const EvenTiles tiles(rows, set.max_rows[vectors]);
    tile.b = panels + column * panel_depth + first * width;
    for (int64_t t = 0; t < tiles.tiles; ++t) {
      const int64_t row = tiles.begin(t);
      tile.a = a + row * a_stride;
      tile.c = c + row * c_stride + column;
      set.run[vectors][tiles.begin(t + 1) - row](tile);
    }
  }
}

// k[sk][dim] -> panels [keys / kPanel][dim][panel_width]; the last one's missing keys become zero.
HWY_INLINE void pack_keys(const AttentionProblem& p, const float* k, float* to) {
  const Tag d;
  const int64_t row = p.k.strides[2], step = p.k.strides[3];
  for (int64_t j = 0; j < p.sk; j += kLanes) {
    const int64_t first = j / kPanel * kPanel, width = panel_width(p.sk, first);
    float* panel = to + first * p.dim + j % kPanel;
    int64_t c = 0;
    if (step == 1 && j + kLanes <= p.sk) {
      for (; c + kLanes <= p.dim; c += kLanes) {
        transpose_square(d, k + j * row + c, row, panel + c * width, width);
      }
    }
    for (; c < p.dim; ++c) {
      for (int64_t l = 0; l < kLanes; ++l) {
        panel[c * width + l] = j + l < p.sk ? k[(j + l) * row + c * step] : 0.0f;
      }
    }
  }
}

// v[sk][dim_v] -> panels [dim_v / kPanel][sk][panel_width], zero beyond dim_v.
HWY_INLINE void pack_values(const AttentionProblem& p, const float* v, float* to) {
  const Tag d;
  for (int64_t c = 0; c < p.dim_v; c += kPanel) {
    const int64_t width = panel_width(p.dim_v, c);
    for (int64_t j = 0; j < p.sk; ++j) {
      const float* from = v + j * p.v.strides[2] + c * p.v.strides[3];
      float* panel = to + c * p.sk + j * width;
      const int64_t n = HWY_MIN(kPanel, p.dim_v - c);
      for (int64_t i = 0; i < width; i += kLanes) {
        V x = hn::Zero(d);
        if (p.v.strides[3] == 1) {
          x = load_n(d, from + i, n - i);
        } else {
          HWY_ALIGN float lanes[kLanes] = {};
          for (int64_t l = i; l < HWY_MIN(n, i + kLanes); ++l)
            lanes[l - i] = from[l * p.v.strides[3]];
          x = hn::Load(d, lanes);
        }
        hn::StoreU(x, d, panel + i);
      }
    }
  }
}

// Turns one row of raw scores into weights exp(s - top), raising the row's maximum and sum and
// scaling what `out` holds so far.
HWY_INLINE void soften(const AttentionProblem& p, float* scores, int64_t count, const float* mask,
                       float* top, float* sum, float* out, int64_t out_count, bool first) {
  const Tag d;
  const V scale = hn::Set(d, p.scale), lowest = hn::Set(d, kLowest);
  const int64_t mask_step = p.mask.strides[3];
  V largest = lowest;
  for (int64_t j = 0; j < count; j += kLanes) {
    const int64_t n = HWY_MIN(kLanes, count - j);
    V s = hn::Mul(hn::LoadU(d, scores + j), scale);
    if (mask != nullptr) {
      if (mask_step == 1) {
        s = hn::Add(s, load_n(d, mask + j, n));
      } else {
        HWY_ALIGN float lanes[kLanes] = {};
        for (int64_t l = 0; l < n; ++l) lanes[l] = mask[(j + l) * mask_step];
        s = hn::Add(s, hn::Load(d, lanes));
      }
    }
    if (n < kLanes) s = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n)), s, lowest);
    hn::StoreU(s, d, scores + j);
    largest = hn::Max(largest, s);
  }
  const float chunk_top = max_lanes(d, largest);
  const float new_top = first || chunk_top > *top ? chunk_top : *top;
  // -inf everywhere so far: any finite shift gives weights of 0, and 0 / 0 in the end.
  const float shift_by = new_top == kLowest ? 0.0f : new_top;
  const V shift = hn::Set(d, shift_by);
  V total = hn::Zero(d);
  for (int64_t j = 0; j < count; j += kLanes) {
    const V e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    total = hn::Add(total, e);
    hn::StoreU(e, d, scores + j);
  }
  const float chunk_sum = sum_lanes(d, total);
  if (first) {
    *sum = chunk_sum;
  } else if (new_top != *top) {
    const float factor = *top == kLowest ? 0.0f : ::expf(*top - shift_by);
    *sum = *sum * factor + chunk_sum;
    for (int64_t i = 0; i < out_count; i += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, out + i), hn::Set(d, factor)), d, out + i);
    }
  } else {
    *sum += chunk_sum;
  }
  *top = new_top;
}

// What a thread works with.
struct Memory {
  float *keys, *values, *queries, *scores, *out, *top, *sum;
};

// The operands of one head; `mask` may be null.
struct Head {
  const float *q, *k, *v, *mask;
  float* out;
};

HWY_INLINE Head head_of(const AttentionProblem& p, const Args& args, int64_t b, int64_t h,
                        int64_t row) {
  const auto at = [&](const AttentionOperand& a, int64_t head) {
    return a.offset + b * a.strides[0] + head * a.strides[1] + row * a.strides[2];
  };
  const auto input = [&](const AttentionOperand& a, int64_t head) {
    return static_cast<const float*>(args.inputs[a.input]) + at(a, head);
  };
  const int64_t kv = h / (p.heads / p.kv_heads);
  return {.q = input(p.q, h),
          .k = input(p.k, kv),
          .v = input(p.v, kv),
          .mask = p.has_mask ? input(p.mask, h) : nullptr,
          .out = static_cast<float*>(args.outputs[0]) + at(p.out, h)};
}

// Queries [first_row, first_row + rows) of a head whose keys and values are packed.
HWY_INLINE void attend(const AttentionProblem& p, const FlashPlan& plan, const Memory& memory,
                       const Head& head, int64_t first_row, int64_t rows) {
  const Tag d;
  const TileSet& set = tile_set(p.target.isa);
  float *scores = memory.scores, *out = memory.out, *top = memory.top, *sum = memory.sum;
  const float* q = head.q + first_row * p.q.strides[2];
  int64_t q_stride = p.q.strides[2];
  if (p.q.strides[3] != 1) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < p.dim; ++c) {
        memory.queries[r * p.dim + c] = q[r * q_stride + c * p.q.strides[3]];
      }
    }
    q = memory.queries;
    q_stride = p.dim;
  }

  for (int64_t from = 0; from < p.sk; from += kKeys) {
    const int64_t count = HWY_MIN(kKeys, p.sk - from);
    multiply(set, rows, count, 0, p.dim, q, q_stride, memory.keys + from * p.dim, p.dim, scores,
             kScoreStride, false);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = first_row + r;
      const float* mask = head.mask == nullptr
                              ? nullptr
                              : head.mask + row * p.mask.strides[2] + from * p.mask.strides[3];
      soften(p, scores + r * kScoreStride, count, mask, top + r, sum + r, out + r * plan.dim_v,
             p.dim_v, from == 0);
    }
    multiply(set, rows, p.dim_v, from, count, scores, kScoreStride, memory.values, p.sk, out,
             plan.dim_v, from > 0);
  }

  float* to = head.out + first_row * p.out.strides[2];
  for (int64_t r = 0; r < rows; ++r) {
    float* row = out + r * plan.dim_v;
    if (p.masked_zero && !(sum[r] > 0)) {
      std::fill_n(row, p.dim_v, 0.0f);
      sum[r] = 1;
    }
    const float inverse = 1.0f / sum[r];
    for (int64_t c = 0; c < p.dim_v; c += kLanes) {
      const V v = hn::Mul(hn::LoadU(d, row + c), hn::Set(d, inverse));
      if (p.out.strides[3] == 1) {
        store_n(v, d, to + r * p.out.strides[2] + c, p.dim_v - c);
      } else {
        hn::StoreU(v, d, row + c);
      }
    }
    if (p.out.strides[3] == 1) continue;
    for (int64_t c = 0; c < p.dim_v; ++c) to[r * p.out.strides[2] + c * p.out.strides[3]] = row[c];
  }
}

// Samples of several lengths: each is a problem of its own.
HWY_INLINE void run_samples(const AttentionProblem& p, const Args& args, const Worker& worker,
                            const FlashPlan& plan, const Memory& memory) {
  const attention::FlashWork work(p, args);
  const attention::FlashJob begin = work.begin(worker, worker.unit);
  const attention::FlashJob end = work.begin(worker, worker.unit + 1);
  for (int64_t b = begin.sample; b <= end.sample && b < p.batch; ++b) {
    const attention::SampleRows sample = attention::sample_rows(p, args, b);
    AttentionProblem one = p;
    one.sq = one.sk = sample.count;
    const int64_t blocks = work.blocks(b);
    const int64_t last = b == end.sample ? end.job : work.jobs(b);
    int64_t packed_kv = -1;
    for (int64_t job = b == begin.sample ? begin.job : 0; job < last; ++job) {
      const int64_t h = job / blocks, first_row = job % blocks * kQueries;
      const int64_t kv = h / (p.heads / p.kv_heads);
      const Head head = head_of(p, args, 0, h, sample.begin);
      if (packed_kv != kv) {
        packed_kv = kv;
        pack_keys(one, head.k, memory.keys);
        pack_values(one, head.v, memory.values);
      }
      attend(one, plan, memory, head, first_row, HWY_MIN(kQueries, one.sq - first_row));
    }
  }
  if (worker.index == 0 && worker.unit == 0) attention::clear_behind(p, args);
}

}  // namespace attention_flash

void attention_run(const AttentionProblem& p, const Args& args, const Worker& worker) {
  using namespace attention_flash;
  const FlashPlan plan = attention::make_plan(p);
  float* floats = reinterpret_cast<float*>(args.scratch) + worker.thread * plan.floats;
  const Memory memory{.keys = floats + plan.k_at,
                      .values = floats + plan.v_at,
                      .queries = floats + plan.q_at,
                      .scores = floats + plan.scores_at,
                      .out = floats + plan.out_at,
                      .top = floats + plan.top_at,
                      .sum = floats + plan.sum_at};
  if (p.rows) return run_samples(p, args, worker, plan, memory);

  const int64_t blocks = (p.sq + kQueries - 1) / kQueries;
  const int64_t group = p.heads / p.kv_heads;
  // Units are whole heads, so that each is packed once.
  const Range share = part_of({0, p.batch * p.heads * blocks}, worker.index, worker.count);
  const Range work = part_of(share, worker.unit, worker.units, blocks);
  int64_t packed_head = -1;
  for (int64_t job = work.begin; job < work.end; ++job) {
    const int64_t b = job / blocks / p.heads, h = job / blocks % p.heads;
    const int64_t first_row = job % blocks * kQueries, rows = HWY_MIN(kQueries, p.sq - first_row);
    const Head head = head_of(p, args, b, h, 0);
    if (packed_head != b * p.kv_heads + h / group) {
      packed_head = b * p.kv_heads + h / group;
      pack_keys(p, head.k, memory.keys);
      pack_values(p, head.v, memory.values);
    }
    attend(p, plan, memory, head, first_row, rows);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::attention {
namespace {

Fit fits(const AttentionProblem& p) { return p.sk == 0 ? Fit::no("no keys") : Fit::yes(0.6); }

size_t scratch_bytes(const AttentionProblem& p) {
  return static_cast<size_t>(p.target.threads * make_plan(p).floats) * sizeof(float);
}

void run(const AttentionProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, attention_run)(p, args, worker);
}

}  // namespace

const Row kFlash{.name = "flash", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::attention
#endif
