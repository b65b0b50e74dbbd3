#include "stretto/runtime/lowering/rules.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::runtime {

const LoweringRule* find_lowering_rule(std::string_view op) {
  static constexpr LoweringRule kRules[] = {
      {"stretto.Conv", lower_conv},
      {"stretto.ConvTranspose", lower_conv_transpose},
      {"stretto.Linear", lower_linear},
      {"stretto.IntegerLinear", lower_integer_linear},
      {"stretto.MatMul", lower_matmul},
      {"MatMul", lower_matmul},
      {"stretto.Append", lower_append},
      {"stretto.Attention", lower_attention},
      {"GRU", lower_recurrent},
      {"LSTM", lower_recurrent},
      {"RNN", lower_recurrent},
      {"MaxPool", lower_pool},
      {"AveragePool", lower_pool},
      {"GlobalAveragePool", lower_global_pool},
      {"GlobalMaxPool", lower_global_pool},
      {"Softmax", lower_softmax},
      {"LogSoftmax", lower_softmax},
      {"LayerNormalization", lower_layer_norm},
      {"RMSNormalization", lower_layer_norm},
      {"stretto.AddLayerNorm", lower_layer_norm},
      {"GroupNormalization", lower_group_norm},
      {"InstanceNormalization", lower_group_norm},
      {"DFT", lower_dft},
      {"STFT", lower_stft},
      {"stretto.Elementwise", lower_fused_elementwise},
      // The rows of tensor/elementwise.inc that are ONNX operators follow lower_elementwise too.
      {"Cast", lower_elementwise},
      {"CastLike", lower_elementwise},
      {"Clip", lower_elementwise},
      {"Gelu", lower_elementwise},
      {"IsInf", lower_elementwise},
      {"PRelu", lower_elementwise},
      {"Sum", lower_elementwise},
      {"Swish", lower_elementwise},
      {"BitwiseAnd", lower_integers},
      {"BitwiseNot", lower_integers},
      {"BitwiseOr", lower_integers},
      {"BitwiseXor", lower_integers},
      {"Mod", lower_integers},
      {"QuantizeLinear", lower_quantize},
      {"DequantizeLinear", lower_dequantize},
      {"BatchNormalization", lower_batch_norm},
      {"ReduceL1", lower_reduce},
      {"ReduceL2", lower_reduce},
      {"ReduceMax", lower_reduce},
      {"ReduceMean", lower_reduce},
      {"ReduceMin", lower_reduce},
      {"ReduceProd", lower_reduce},
      {"ReduceSum", lower_reduce},
      {"ReduceSumSquare", lower_reduce},
      {"CumProd", lower_cumsum},
      {"CumSum", lower_cumsum},
      {"Resize", lower_resize},
      {"Transpose", lower_transpose},
      {"Concat", lower_concat},
      {"Split", lower_split},
      {"Slice", lower_slice},
      {"Pad", lower_pad},
      {"Expand", lower_expand},
      {"Gather", lower_gather},
      {"stretto.RowIndex", lower_row_index},
      {"stretto.TakeRows", lower_gather},  // along axis 0
      {"stretto.TreeEnsemble", lower_trees},
      {"Reshape", lower_view},
      {"Flatten", lower_view},
      {"Squeeze", lower_view},
      {"Unsqueeze", lower_view},
      {"Identity", lower_view},
  };
  for (const LoweringRule& rule : kRules) {
    if (rule.op == op) return &rule;
  }
  const ElementRow* row = find_element(op);
  if (row == nullptr || row->use != ElementRow::Use::kOnnx) return nullptr;
  static constexpr LoweringRule kElementwiseRule{"elementwise", lower_elementwise};
  return &kElementwiseRule;
}

}  // namespace stretto::runtime
