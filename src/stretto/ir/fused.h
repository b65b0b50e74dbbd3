// Stretto's own operators: what passes rewrite ONNX operators into. Each is a row of the operator
// table with a reference like any other, so a rewritten graph can always be run and compared.
//
// Epilogue attributes, shared by the first three:
//   activation (string: none, or one of tensor/elementwise.inc), alpha, beta (float),
//   residual_after_activation (int 0/1). result = activation(sum + bias + residual), or
//   activation(sum + bias) + residual.
//
// stretto.Conv(x, weight, bias?, residual?) -> y
//   x [n, c, h, w] (or [n, c, l]); attributes of ONNX Conv with explicit pads (no auto_pad), plus
//   epilogue. With exact (int) = 1, x and weight hold integers, and every sum of such products is
//   below 2^24: the result is the same integer whatever the order, so it is computed as it stands.
// stretto.ConvTranspose(x, weight, bias?, residual?) -> y
//   attributes of ONNX ConvTranspose with explicit pads and output_padding, plus epilogue.
// stretto.Linear(x, weight, bias?, residual?) -> y
//   x [..., k]; weight constant [k, n], or [n, k] with trans_weight (int) = 1; bias [n]; y [...,
//   n]; residual of y's shape; epilogue.
// stretto.MatMul(a, b) -> y
//   y = scale * a @ b, NumPy batch broadcasting, b's last two axes swapped with trans_b (int) = 1;
//   scale (float, 1).
// stretto.Attention(q, k, v, mask?, starts?) -> y
//   q [b, sq, *], k, v [b, sk, *]: rows that hold `heads` (int) runs of head_dim (int) numbers
//   starting at column q_offset, k_offset, v_offset (int, 0): a packed projection is the same value
//   three times. Or k, v [b, kv_heads, sk, head_dim], as caches hold them; heads is a multiple of
//   kv_heads, and heads / kv_heads of them in a row share one. y [b, sq, heads * head_dim] =
//   softmax(q k^T * scale (float) + mask) v, mask broadcastable to [b, heads, sq, sk]. A query that
//   sees no key gives NaN, or zeros with masked_zero (int) = 1.
//   With starts, int32 [samples + 1], ascending from 0: q, k, v are rows [1, rows, *] of samples
//   one behind the other, of which sample i has rows starts[i] to starts[i + 1], at most `longest`
//   (int), and each row sees those of its own sample; no mask. Rows behind the last sample give
//   zeros.
// stretto.RowIndex(mask) -> rows, places, starts, positions, samples
//   How the elements of a mask, bool [batch, length], that are true lie one behind the other in
//   `rows` (int) rows; those that find no room are left out. All results are int32. rows [rows]:
//   each row's index in the flat mask; positions, samples [rows]: the same as two indices; places
//   [batch * length]: each element's row; 2147483647 where there is none. starts [batch + 1]: the
//   rows before each sample, and all.
// stretto.TakeRows(x, index) -> y
//   y[i] = x[index[i]] for x [n, ...]. Negative indices count from the end, and those out of range
//   give zeros.
// stretto.Append(memory, new) -> y
//   y = the first `length` (int) places of memory along `axis` (int), then new. Other than the
//   interpreter, a program writes new into the memory, which is an input of the graph, behind these
//   places.
// stretto.AddLayerNorm(x, residual, scale, bias?) -> y, sum?
//   sum = x + residual; y = LayerNormalization(sum) over the last axis; epsilon (float).
// stretto.Elementwise(x...) -> y
//   One fused loop. program (string): assignments separated by ';', each `tN = Op(args)`, the last
//   one is the result: "t0 = Add(x0, x1); t1 = Sigmoid(t0); t2 = Mul(t0, t1)". Args: inputs x0..x7,
//   earlier results, float literals. Ops: the rows of tensor/elementwise.inc that are not the
//   kernels' own; arguments are a row's operands, then its numbers: Clip(x, lo, hi), Elu(x, alpha).
//   NumPy broadcasting of all inputs; result type = type of x0 unless dtype (string) says
//   otherwise.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/graph.h"

namespace stretto::ir {

// A parsed stretto.Elementwise program.
struct ElementwiseArg {
  enum class Kind { kInput, kResult, kLiteral } kind = Kind::kLiteral;
  int index = 0;  // of the input or result
  double literal = 0;
};
struct ElementwiseStep {
  std::string op;
  std::vector<ElementwiseArg> args;
};
// Throws InvalidArgument quoting the text at fault.
std::vector<ElementwiseStep> parse_elementwise(std::string_view program);
std::string elementwise_text(const std::vector<ElementwiseStep>& steps);  // the inverse

// Whether each step makes truth, 1 or 0, where input i is truth if inputs[i] says so.
std::vector<bool> truth_of(const std::vector<ElementwiseStep>& steps,
                           const std::vector<bool>& inputs);
// What a kernel does for each element: the steps, and the numbers among their operands.
int elementwise_operations(const std::vector<ElementwiseStep>& steps);

// The program that computes an ONNX operator, with input i of the node as xi, an absent bound of
// Clip as a literal, and the sum, minimum or maximum of one input as Copy(x0). It says nothing of
// types. Nothing for operators that are not elementwise, for Swish unless alpha is 1, and for Cast.
std::optional<std::vector<ElementwiseStep>> elementwise_program(const Node& node);

}  // namespace stretto::ir
