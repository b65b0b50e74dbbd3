// Scaled dot-product attention: out = softmax(q k^T * scale + mask) v for every batch and head.
// Method: tiles of scores that never leave the cache, with a running maximum and sum (Milakov and
// Gimelshein 2018; Dao et al. 2022).
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Where element [batch, head, row, i] of an operand lies: inputs[input] + offset + b * strides[0] +
// h * strides[1] + row * strides[2] + i * strides[3], in elements. Stride 0 broadcasts. So [batch,
// seq, heads, dim] and packed q, k, v of one tensor need no transposition.
struct AttentionOperand {
  int32_t input = 0;
  int32_t reserved = 0;
  int64_t offset = 0;
  int64_t strides[4] = {0, 0, 0, 1};
};

// Inputs: `inputs` flat fp32 tensors of input_elements[i]. q is [batch, heads, sq, dim], k
// [batch, kv_heads, sk, dim], v [batch, kv_heads, sk, dim_v], mask (if has_mask, added)
// [batch, heads, sq, sk]. heads is a multiple of kv_heads: head h uses k and v of h / (heads /
// kv_heads). Output: out [batch,
// heads, sq, dim_v] by `out` (its input is ignored), flat of out_elements, all of which are written
// when the strides describe a dense tensor. A query whose keys are all masked with -infinity gives
// NaN, or zeros if masked_zero; a v that is not finite may or may not reach queries whose masks
// hide it.
//
// With `rows`, not 0: q, k, v and out have that many rows, which belong to `batch` samples one
// behind the other (strides[0] is not used), and one more input, the last, is int32 starts [batch +
// 1], ascending from 0: sample b has rows starts[b] to starts[b + 1], at most sq = sk of them, and
// its queries see its keys. No mask. Rows behind the last sample get zeros.
struct AttentionProblem {
  Target target{};
  int64_t batch = 1, heads = 1, kv_heads = 1, sq = 1, sk = 1, dim = 1, dim_v = 1;
  int64_t input_elements[4] = {};
  int64_t out_elements = 0;
  AttentionOperand q, k, v, mask, out;
  float scale = 1;
  int32_t inputs = 3;
  uint8_t has_mask = 0;
  uint8_t masked_zero = 0;
  uint8_t reserved[6] = {};
  int64_t rows = 0;
};

// q, k, v and out each a dense tensor: [batch, heads, seq, dim], or [batch, seq, heads, dim] when
// `heads_inside`. scale = 1 / sqrt(dim). No mask.
AttentionProblem dense_attention(const Target& target, int64_t batch, int64_t heads, int64_t sq,
                                 int64_t sk, int64_t dim, bool heads_inside);
// Adds a mask input of this shape, broadcast to [batch, heads, sq, sk] (dimensions equal or 1).
void add_mask(AttentionProblem& p, const int64_t (&shape)[4]);

// From a dense problem whose heads are inside, without a mask: sq becomes the longest sample.
void make_ragged(AttentionProblem& p, int64_t rows);

std::string problem_key(const AttentionProblem& p);
Signature problem_signature(const AttentionProblem& p);
double problem_flops(const AttentionProblem& p);

extern const Family kAttention;

}  // namespace stretto::kernels
