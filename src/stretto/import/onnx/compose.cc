#include "stretto/import/onnx/compose.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::onnx {

std::span<const CompositionRow> composition_rows() {
  static constexpr std::string_view kTraining = "ai.onnx.preview.training";
  static constexpr std::string_view kMl = "ai.onnx.ml", kPreview = "ai.onnx.preview";
  static constexpr std::string_view kMicrosoft = "com.microsoft";  // of ONNX Runtime
  static constexpr CompositionRow kRows[] = {
      {"", "AffineGrid", compose_affine_grid},
      {"", "Attention", compose_attention},
      {"", "Bernoulli", compose_bernoulli},
      {"", "BlackmanWindow", compose_blackman_window},
      {"", "CausalConvWithState", compose_causal_conv},
      {"", "CenterCropPad", compose_center_crop_pad},
      {"", "ConvInteger", compose_conv_integer},
      {"", "DynamicQuantizeLinear", compose_dynamic_quantize},
      {"", "EyeLike", compose_eye},
      {"", "GlobalLpPool", compose_global_lp_pool},
      {"", "HammingWindow", compose_hamming_window},
      {"", "HannWindow", compose_hann_window},
      {"", "Loop", unroll_loop},
      {"", "LpNormalization", compose_lp_normalization},
      {"", "MatMulInteger", compose_matmul_integer},
      {"", "MeanVarianceNormalization", compose_mean_variance_normalization},
      {"", "MelWeightMatrix", compose_mel_weights},
      {"", "Multinomial", compose_multinomial},
      {"", "OptionalGetElement", compose_optional_get_element},
      {"", "OptionalHasElement", compose_optional_has_element},
      {"", "QLinearConv", compose_qlinear_conv},
      {"", "QLinearMatMul", compose_qlinear_matmul},
      {"", "RotaryEmbedding", compose_rotary_embedding},
      {"", "Scan", unroll_scan},
      {"", "SimplifiedLayerNormalization", compose_simplified_layer_norm},  // ONNX Runtime's
      {"", "SoftmaxCrossEntropyLoss", compose_softmax_cross_entropy},
      {"", "SwiGLU", compose_swiglu},
      {kMl, "ArrayFeatureExtractor", compose_array_feature_extractor},
      {kMl, "Binarizer", compose_binarizer},
      {kMl, "FeatureVectorizer", compose_feature_vectorizer},
      {kMl, "Imputer", compose_imputer},
      {kMl, "LinearClassifier", compose_linear_classifier},
      {kMl, "LinearRegressor", compose_linear_regressor},
      {kMl, "Normalizer", compose_normalizer},
      {kMl, "OneHotEncoder", compose_one_hot_encoder},
      {kMl, "SVMClassifier", compose_svm_classifier},
      {kMl, "SVMRegressor", compose_svm_regressor},
      {kMl, "Scaler", compose_scaler},
      {kMl, "TreeEnsemble", compose_tree_ensemble},
      {kMl, "TreeEnsembleClassifier", compose_tree_ensemble_classifier},
      {kMl, "TreeEnsembleRegressor", compose_tree_ensemble_regressor},
      {kPreview, "FlexAttention", compose_flex_attention},
      {kMicrosoft, "Attention", compose_runtime_attention},
      {kMicrosoft, "BiasAdd", compose_bias_add},
      {kMicrosoft, "BiasGelu", compose_bias_gelu},
      {kMicrosoft, "BiasSplitGelu", compose_bias_split_gelu},
      {kMicrosoft, "DequantizeLinear", compose_runtime_dequantize},
      {kMicrosoft, "DynamicQuantizeLSTM", compose_dynamic_quantize_lstm},
      {kMicrosoft, "DynamicQuantizeMatMul", compose_dynamic_quantize_matmul},
      {kMicrosoft, "EmbedLayerNormalization", compose_embed_layer_norm},
      {kMicrosoft, "ExpandDims", compose_expand_dims},
      {kMicrosoft, "FastGelu", compose_fast_gelu},
      {kMicrosoft, "FusedConv", compose_fused_conv},
      {kMicrosoft, "FusedGemm", compose_fused_gemm},
      {kMicrosoft, "FusedMatMul", compose_fused_matmul},
      {kMicrosoft, "GatherBlockQuantized", compose_gather_block_quantized},
      {kMicrosoft, "Gelu", compose_gelu},
      {kMicrosoft, "GroupNorm", compose_runtime_group_norm},
      {kMicrosoft, "GroupQueryAttention", compose_group_query_attention},
      {kMicrosoft, "MatMulIntegerToFloat", compose_matmul_integer_to_float},
      {kMicrosoft, "MatMulNBits", compose_matmul_bits},
      {kMicrosoft, "MultiHeadAttention", compose_multi_head_attention},
      {kMicrosoft, "NhwcMaxPool", compose_nhwc_max_pool},
      {kMicrosoft, "QAttention", compose_qattention},
      {kMicrosoft, "QEmbedLayerNormalization", compose_qembed_layer_normalization},
      {kMicrosoft, "QGemm", compose_qgemm},
      {kMicrosoft, "QLinearAdd", compose_qlinear_add},
      {kMicrosoft, "QLinearAveragePool", compose_qlinear_average_pool},
      {kMicrosoft, "QLinearConcat", compose_qlinear_concat},
      {kMicrosoft, "QLinearConv", compose_channels_last_qlinear_conv},
      {kMicrosoft, "QLinearGlobalAveragePool", compose_qlinear_global_average_pool},
      {kMicrosoft, "QLinearLeakyRelu", compose_qlinear_leaky_relu},
      {kMicrosoft, "QLinearMul", compose_qlinear_mul},
      {kMicrosoft, "QLinearReduceMean", compose_qlinear_reduce_mean},
      {kMicrosoft, "QLinearSigmoid", compose_qlinear_sigmoid},
      {kMicrosoft, "QLinearSoftmax", compose_qlinear_softmax},
      {kMicrosoft, "QLinearWhere", compose_qlinear_where},
      {kMicrosoft, "QuantizeLinear", compose_runtime_quantize},
      {kMicrosoft, "QuickGelu", compose_quick_gelu},
      {kMicrosoft, "RotaryEmbedding", compose_runtime_rotary_embedding},
      {kMicrosoft, "SkipGroupNorm", compose_skip_group_norm},
      {kMicrosoft, "SkipLayerNormalization", compose_skip_layer_norm},
      {kMicrosoft, "SkipSimplifiedLayerNormalization", compose_skip_simplified_layer_norm},
      {kMicrosoft, "TransposeMatMul", compose_fused_matmul},
      {kMicrosoft, "Trilu", compose_runtime_trilu},
      {kTraining, "Adagrad", compose_adagrad},
      {kTraining, "Adam", compose_adam},
      {kTraining, "Momentum", compose_momentum},
  };
  return kRows;
}

const CompositionRow* find_composition(std::string_view domain, std::string_view op) {
  const auto rows = composition_rows();
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const CompositionRow& row) {
    return row.op == op && row.domain == domain;
  });
  return at == rows.end() ? nullptr : &*at;
}

ir::Attributes attribute(std::string name, ir::Attribute value) {
  ir::Attributes attributes;
  attributes.set(std::move(name), std::move(value));
  return attributes;
}

std::vector<int64_t> known_integers(const PendingNode& node, size_t input, std::string_view what) {
  const Tensor* tensor = node.constant(input);
  if (tensor == nullptr) {
    node.not_straight(
        fmt::format("{} must be known when the model is optimised, but it depends on "
                    "the model's input values",
                    what));
  }
  return tensor->as_int64s();
}

Parts::Id Parts::number(double value, Id like) {
  return constant(Tensor::scalar<double>(value).converted(dtype(like)));
}

Parts::Id Parts::integers(const std::vector<int64_t>& values) {
  return constant(Tensor::int64s(values));
}

Parts::Id Parts::reshape(Id x, const Shape& to) {
  return op("Reshape", {x, integers(to)}, attribute("allowzero", int64_t{1}));
}

Parts::Id Parts::transpose(Id x, const std::vector<int64_t>& order) {
  return op("Transpose", {x}, attribute("perm", order));
}

Parts::Id Parts::concat(std::vector<Id> inputs, int64_t axis) {
  return op("Concat", std::move(inputs), attribute("axis", axis));
}

Parts::Id Parts::slice(Id x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return op("Slice", {x, integers({begin}), integers({end}), integers({axis}), integers({step})});
}

Parts::Id Parts::cast(Id x, DType to) {
  if (dtype(x) == to) return x;
  return op("Cast", {x}, attribute("to", std::string(dtype_name(to))));
}

Parts::Id Parts::reduce(std::string_view name, Id x, const std::vector<int64_t>& axes, bool keep) {
  return op(name, {x, integers(axes)}, attribute("keepdims", int64_t{keep ? 1 : 0}));
}

DType result_type(const PendingNode& node, std::string_view attribute, DType fallback) {
  const std::string text = node.attributes.text(attribute, "");
  return text.empty() ? fallback : parse_dtype(text);
}

void expect_inputs(const PendingNode& node, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!node.has_input(i)) throw_invalid("{} \"{}\": input {} is missing", node.op, node.name, i);
  }
}

void check(const PendingNode& node, bool fine, std::string_view problem) {
  if (!fine) throw_invalid("{} \"{}\": {}", node.op, node.name, problem);
}

}  // namespace stretto::onnx
