// Operators that become several others when a model is read: those that ONNX defines by a body of
// simpler operators, and those that are sums and products of others. Fast kernels of the parts then
// serve the whole.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/import/onnx/upgrade.h"

namespace stretto::onnx {

struct CompositionRow {
  std::string_view domain;  // "" is ONNX's own
  std::string_view op;
  void (*apply)(PendingNode&);  // emits the parts and sets `results`
};

std::span<const CompositionRow> composition_rows();
const CompositionRow* find_composition(std::string_view domain, std::string_view op);

// Shorthand for emitting parts. Every function returns the part's output.
class Parts {
 public:
  using Id = ir::ValueId;

  explicit Parts(PendingNode& node) : node_(node) {}

  Id op(std::string_view name, std::vector<Id> inputs, ir::Attributes attributes = {}) {
    return node_.emit(name, std::move(inputs), std::move(attributes));
  }
  // A scalar of the type of `like`.
  Id number(double value, Id like);
  Id integers(const std::vector<int64_t>& values);  // of rank 1
  Id constant(Tensor tensor) { return node_.add_constant("constant", std::move(tensor)); }

  Id add(Id a, Id b) { return op("Add", {a, b}); }
  Id subtract(Id a, Id b) { return op("Sub", {a, b}); }
  Id multiply(Id a, Id b) { return op("Mul", {a, b}); }
  Id divide(Id a, Id b) { return op("Div", {a, b}); }
  Id matmul(Id a, Id b) { return op("MatMul", {a, b}); }
  Id reshape(Id x, const Shape& shape);
  Id transpose(Id x, const std::vector<int64_t>& order);
  Id concat(std::vector<Id> inputs, int64_t axis);
  Id slice(Id x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  Id cast(Id x, DType dtype);  // `x` itself if it has the type
  Id reduce(std::string_view name, Id x, const std::vector<int64_t>& axes, bool keep = true);

  const Shape& shape(Id id) const { return *node_.emitter.value(id).shape; }
  DType dtype(Id id) const { return node_.emitter.value(id).dtype; }

 private:
  PendingNode& node_;
};

// One attribute, for a part.
ir::Attributes attribute(std::string name, ir::Attribute value);

// Integers of an input that must be known when the model is read; throws Unsupported naming it.
std::vector<int64_t> known_integers(const PendingNode& node, size_t input, std::string_view what);

// The type that an attribute names, after type_names().
DType result_type(const PendingNode& node, std::string_view attribute, DType fallback);

// Throw InvalidArgument naming the node: where one of the first `count` inputs is absent, and where
// something else about it is not fine.
void expect_inputs(const PendingNode& node, size_t count);
void check(const PendingNode& node, bool fine, std::string_view problem);

// compose_attention.cc
void compose_attention(PendingNode& node);
void compose_flex_attention(PendingNode& node);
void compose_rotary_embedding(PendingNode& node);

// compose_optional.cc: of tensors, which always are there
void compose_optional_get_element(PendingNode& node);
void compose_optional_has_element(PendingNode& node);

// compose_features.cc: of domain ai.onnx.ml
void compose_array_feature_extractor(PendingNode& node);
void compose_binarizer(PendingNode& node);
void compose_feature_vectorizer(PendingNode& node);
void compose_imputer(PendingNode& node);
void compose_normalizer(PendingNode& node);
void compose_one_hot_encoder(PendingNode& node);
void compose_scaler(PendingNode& node);

// compose_linear.cc: of that domain
void compose_linear_classifier(PendingNode& node);
void compose_linear_regressor(PendingNode& node);
void compose_svm_classifier(PendingNode& node);
void compose_svm_regressor(PendingNode& node);

// compose_trees.cc: of that domain
void compose_tree_ensemble(PendingNode& node);
void compose_tree_ensemble_classifier(PendingNode& node);
void compose_tree_ensemble_regressor(PendingNode& node);

// unroll.cc: loops whose number of turns is known when the model is read
void unroll_loop(PendingNode& node);
void unroll_scan(PendingNode& node);

// compose_layers.cc
void compose_causal_conv(PendingNode& node);
void compose_global_lp_pool(PendingNode& node);
void compose_lp_normalization(PendingNode& node);
void compose_mean_variance_normalization(PendingNode& node);
void compose_softmax_cross_entropy(PendingNode& node);
void compose_swiglu(PendingNode& node);
void train_batch_normalization(PendingNode& node);  // with the statistics of its input

// compose_images.cc
void compose_affine_grid(PendingNode& node);
void compose_center_crop_pad(PendingNode& node);

// compose_random.cc
void compose_bernoulli(PendingNode& node);
void compose_multinomial(PendingNode& node);

// compose_runtime.cc: operators of ONNX Runtime (domain com.microsoft), which it and exporters
// write
void compose_bias_add(PendingNode& node);
void compose_bias_gelu(PendingNode& node);
void compose_bias_split_gelu(PendingNode& node);
void compose_embed_layer_norm(PendingNode& node);
void compose_expand_dims(PendingNode& node);
void compose_fast_gelu(PendingNode& node);
void compose_fused_conv(PendingNode& node);
void compose_fused_gemm(PendingNode& node);
void compose_fused_matmul(PendingNode& node);
void compose_gelu(PendingNode& node);
void compose_quick_gelu(PendingNode& node);
void compose_runtime_group_norm(PendingNode& node);
void compose_runtime_trilu(PendingNode& node);
void compose_simplified_layer_norm(PendingNode& node);
void compose_skip_group_norm(PendingNode& node);
void compose_skip_layer_norm(PendingNode& node);
void compose_skip_simplified_layer_norm(PendingNode& node);

// compose_runtime_attention.cc
void compose_group_query_attention(PendingNode& node);
void compose_multi_head_attention(PendingNode& node);
void compose_runtime_attention(PendingNode& node);
void compose_runtime_rotary_embedding(PendingNode& node);

// compose_runtime_bits.cc: their weights of 2, 4 and 8 bits
void compose_gather_block_quantized(PendingNode& node);
void compose_matmul_bits(PendingNode& node);

// compose_runtime_qlinear.cc: their operators on 8-bit tensors
void compose_channels_last_qlinear_conv(PendingNode& node);
void compose_qgemm(PendingNode& node);
void compose_qlinear_add(PendingNode& node);
void compose_nhwc_max_pool(PendingNode& node);
void compose_qlinear_average_pool(PendingNode& node);
void compose_qlinear_concat(PendingNode& node);
void compose_qlinear_global_average_pool(PendingNode& node);
void compose_qlinear_leaky_relu(PendingNode& node);
void compose_qlinear_mul(PendingNode& node);
void compose_qlinear_reduce_mean(PendingNode& node);
void compose_qlinear_sigmoid(PendingNode& node);
void compose_qlinear_softmax(PendingNode& node);
void compose_qlinear_where(PendingNode& node);

// compose_runtime_quantized.cc: their products and layers of 8-bit weights
void compose_dynamic_quantize_lstm(PendingNode& node);
void compose_dynamic_quantize_matmul(PendingNode& node);
void compose_matmul_integer_to_float(PendingNode& node);
void compose_qattention(PendingNode& node);
void compose_qembed_layer_normalization(PendingNode& node);
void compose_runtime_dequantize(PendingNode& node);
void compose_runtime_quantize(PendingNode& node);

// compose_quantized.cc
void compose_conv_integer(PendingNode& node);
void compose_dynamic_quantize(PendingNode& node);
void compose_matmul_integer(PendingNode& node);
void compose_qlinear_conv(PendingNode& node);
void compose_qlinear_matmul(PendingNode& node);

// compose_tables.cc: what is known when the model is read
void compose_blackman_window(PendingNode& node);
void compose_eye(PendingNode& node);
void compose_hamming_window(PendingNode& node);
void compose_hann_window(PendingNode& node);
void compose_mel_weights(PendingNode& node);

// compose_training.cc: the steps of optimisers
void compose_adagrad(PendingNode& node);
void compose_adam(PendingNode& node);
void compose_momentum(PendingNode& node);

}  // namespace stretto::onnx
