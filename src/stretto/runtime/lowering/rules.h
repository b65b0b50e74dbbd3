// Lowering rules, declared one per line; rules.cc says which operator uses which.
#pragma once

#include <algorithm>

#include "stretto/kernels/epilogue.h"
#include "stretto/runtime/lowering/lowering.h"

namespace stretto::runtime {

// Convolutions (conv.cc).
bool lower_conv(Lowering& l, const ir::Node& node);
bool lower_conv_transpose(Lowering& l, const ir::Node& node);

// Matrix products (matrix.cc, integer.cc, matmul.cc, attention.cc).
bool lower_linear(Lowering& l, const ir::Node& node);
bool lower_integer_linear(Lowering& l, const ir::Node& node);
bool lower_matmul(Lowering& l, const ir::Node& node);
bool lower_attention(Lowering& l, const ir::Node& node);

// Recurrent layers (recurrent.cc).
bool lower_recurrent(Lowering& l, const ir::Node& node);

// Pooling (pool.cc).
bool lower_pool(Lowering& l, const ir::Node& node);
bool lower_global_pool(Lowering& l, const ir::Node& node);

// Operators along one axis (row.cc).
bool lower_cumsum(Lowering& l, const ir::Node& node);
bool lower_softmax(Lowering& l, const ir::Node& node);
bool lower_layer_norm(Lowering& l, const ir::Node& node);
bool lower_group_norm(Lowering& l, const ir::Node& node);

// Fourier transforms (fourier.cc).
bool lower_dft(Lowering& l, const ir::Node& node);
bool lower_stft(Lowering& l, const ir::Node& node);

// Elementwise operators, fused (stretto.Elementwise) or single (elementwise.cc).
bool lower_fused_elementwise(Lowering& l, const ir::Node& node);
bool lower_elementwise(Lowering& l, const ir::Node& node);
bool lower_integers(Lowering& l, const ir::Node& node);  // those that are not of that table
bool lower_quantize(Lowering& l, const ir::Node& node);
bool lower_dequantize(Lowering& l, const ir::Node& node);
bool lower_batch_norm(Lowering& l, const ir::Node& node);

// Data movement (movement.cc), reductions (reduce.cc), resampling (resize.cc).
bool lower_transpose(Lowering& l, const ir::Node& node);
bool lower_concat(Lowering& l, const ir::Node& node);
bool lower_append(Lowering& l, const ir::Node& node);
bool lower_slice(Lowering& l, const ir::Node& node);
bool lower_split(Lowering& l, const ir::Node& node);
bool lower_pad(Lowering& l, const ir::Node& node);
bool lower_expand(Lowering& l, const ir::Node& node);
bool lower_gather(Lowering& l, const ir::Node& node);
bool lower_row_index(Lowering& l, const ir::Node& node);
bool lower_reduce(Lowering& l, const ir::Node& node);
bool lower_resize(Lowering& l, const ir::Node& node);

// Concatenation and splitting without copies (join.cc); false when the axis does not allow it.
bool join_in_place(Lowering& l, const ir::Node& node);
bool split_in_place(Lowering& l, const ir::Node& node);
bool slice_in_place(Lowering& l, const ir::Node& node);

// Ensembles of trees (trees.cc).
bool lower_trees(Lowering& l, const ir::Node& node);

// Reshapes and other views of the same memory (view.cc).
bool lower_view(Lowering& l, const ir::Node& node);

// The epilogue that the attributes of ir/fused.h describe.
kernels::Epilogue epilogue_of(const ir::Node& node, bool bias, bool residual);

// Kernels count within windows in 32 bits, and multiply two such numbers. No layer comes near these
// extents; the reference takes those beyond.
inline bool small_window(std::span<const int64_t> extents) {
  return std::all_of(extents.begin(), extents.end(),
                     [](int64_t extent) { return extent < (1 << 15); });
}

// All four layout choices of an operator with one image in and one out.
inline constexpr std::pair<Layout, Layout> kLayoutPairs[] = {
    {Layout::kBlocked, Layout::kBlocked},
    {Layout::kPlain, Layout::kBlocked},
    {Layout::kBlocked, Layout::kPlain},
    {Layout::kPlain, Layout::kPlain},
};

}  // namespace stretto::runtime
