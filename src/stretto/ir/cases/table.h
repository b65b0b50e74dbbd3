// What every operator draws of itself: the descriptions that stand in ir/cases/, one row each.
// A test holds the table to ir::operators().
#pragma once

#include "stretto/ir/cases.h"

namespace stretto::ir::cases {

// elementwise.cc
void unary(CaseDraw& d);
void alpha(CaseDraw& d);
void alpha_and_beta(CaseDraw& d);
void alpha_and_gamma(CaseDraw& d);
void shrink(CaseDraw& d);
void gelu(CaseDraw& d);
void binary(CaseDraw& d);
void variadic(CaseDraw& d);
void clip(CaseDraw& d);
void mod(CaseDraw& d);
void pow(CaseDraw& d);
void prelu(CaseDraw& d);
void where(CaseDraw& d);
void cast(CaseDraw& d);
void cast_like(CaseDraw& d);
void fused_elementwise(CaseDraw& d);

// indexing.cc
void gather(CaseDraw& d);
void gather_elements(CaseDraw& d);
void gather_nd(CaseDraw& d);
void row_index(CaseDraw& d);
void take_rows(CaseDraw& d);
void scatter_elements(CaseDraw& d);
void scatter_nd(CaseDraw& d);
void constant(CaseDraw& d);
void constant_of_shape(CaseDraw& d);
void one_hot(CaseDraw& d);
void range(CaseDraw& d);
void shape_of(CaseDraw& d);
void size_of(CaseDraw& d);

// movement.cc
void transpose(CaseDraw& d);
void expand(CaseDraw& d);
void tile(CaseDraw& d);
void slice(CaseDraw& d);
void depth_to_space(CaseDraw& d);
void space_to_depth(CaseDraw& d);
void reshape(CaseDraw& d);
void flatten(CaseDraw& d);
void squeeze(CaseDraw& d);
void unsqueeze(CaseDraw& d);
void append(CaseDraw& d);
void concat(CaseDraw& d);
void split(CaseDraw& d);
void identity(CaseDraw& d);
void pad(CaseDraw& d);
void trilu(CaseDraw& d);

// products.cc
void matmul(CaseDraw& d);
void fused_matmul(CaseDraw& d);
void gemm(CaseDraw& d);
void attention(CaseDraw& d);
void einsum(CaseDraw& d);

// random.cc
void random_normal(CaseDraw& d);
void random_normal_like(CaseDraw& d);
void random_uniform(CaseDraw& d);
void random_uniform_like(CaseDraw& d);

// recurrent.cc
void rnn(CaseDraw& d);
void gru(CaseDraw& d);
void lstm(CaseDraw& d);

// rows.cc
void softmax(CaseDraw& d);
void instance_norm(CaseDraw& d);
void group_norm(CaseDraw& d);
void layer_norm(CaseDraw& d);
void rms_norm(CaseDraw& d);
void add_layer_norm(CaseDraw& d);
void batch_norm(CaseDraw& d);
void lrn(CaseDraw& d);
void reduce(CaseDraw& d);
void cumsum(CaseDraw& d);
void arg(CaseDraw& d);
void top(CaseDraw& d);

// quantize.cc
void quantize(CaseDraw& d);
void dequantize(CaseDraw& d);
void integer_linear(CaseDraw& d);
void bit_cast(CaseDraw& d);
void bit_shift(CaseDraw& d);
void is_inf(CaseDraw& d);
void compress(CaseDraw& d);
void nonzero(CaseDraw& d);
void unique(CaseDraw& d);

// signals.cc
void dft(CaseDraw& d);
void stft(CaseDraw& d);
void linear_attention(CaseDraw& d);
void reverse_sequence(CaseDraw& d);
void tensor_scatter(CaseDraw& d);
void negative_log_likelihood(CaseDraw& d);
void det(CaseDraw& d);
void tfidf(CaseDraw& d);
void tree_ensemble(CaseDraw& d);

// places.cc
void grid_sample(CaseDraw& d);
void roi_align(CaseDraw& d);
void deform_conv(CaseDraw& d);
void col2im(CaseDraw& d);
void max_unpool(CaseDraw& d);
void non_max_suppression(CaseDraw& d);

// windows.cc
void max_pool(CaseDraw& d);
void average_pool(CaseDraw& d);
void lp_pool(CaseDraw& d);
void conv(CaseDraw& d);
void fused_conv(CaseDraw& d);
void conv_transpose(CaseDraw& d);
void fused_conv_transpose(CaseDraw& d);
void global_pool(CaseDraw& d);
void linear(CaseDraw& d);
void resize(CaseDraw& d);

struct Row {
  std::string_view op;
  void (*describe)(CaseDraw&);
};
std::span<const Row> rows();

}  // namespace stretto::ir::cases
