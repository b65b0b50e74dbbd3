#include "stretto/import/onnx/upgrade.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/import/onnx/upgrade_functions.h"
#include "stretto/ir/not_straight.h"
#include "stretto/ir/operator.h"

namespace stretto::onnx {

std::span<const UpgradeRow> upgrade_rows() {
  static constexpr UpgradeRow kRows[] = {
      {"Add", 7, named_broadcast},
      {"And", 7, named_broadcast},
      {"BatchNormalization", 7, test_mode},
      {"BatchNormalization", kAlways, batch_normalization},
      {"BitCast", kAlways, bit_cast},
      {"Cast", kAlways, type_names},
      {"Clip", 11, clip_limits},
      {"DFT", 20, dft_axis},
      {"DequantizeLinear", kAlways, type_names},
      {"Div", 7, named_broadcast},
      {"Dropout", 7, test_mode},
      {"Dropout", kAlways, dropout, "Identity"},
      {"Equal", 7, named_broadcast},
      {"GRU", 7, output_sequence},
      {"Gemm", 7, named_broadcast},
      {"Greater", 7, named_broadcast},
      {"GridSample", 20, grid_sample_modes},
      {"GroupNormalization", 21, group_normalization},
      {"Hardmax", 13, softmax_of_matrix},
      {"LSTM", 7, output_sequence},
      {"Less", 7, named_broadcast},
      {"LogSoftmax", 13, softmax_of_matrix},
      {"Mul", 7, named_broadcast},
      {"Or", 7, named_broadcast},
      {"PRelu", 9, prelu_slope},
      {"Pad", 11, pad_inputs},
      {"Pow", 7, named_broadcast},
      {"QuantizeLinear", kAlways, quantize_precision},
      {"RNN", 7, output_sequence},
      {"RandomNormal", kAlways, type_names},
      {"RandomNormalLike", kAlways, random_like},
      {"RandomUniform", kAlways, type_names},
      {"RandomUniformLike", kAlways, random_like},
      {"ReduceL1", 18, axes_input},
      {"ReduceL2", 18, axes_input},
      {"ReduceLogSum", 18, axes_input},
      {"ReduceLogSumExp", 18, axes_input},
      {"ReduceMax", 18, axes_input},
      {"ReduceMean", 18, axes_input},
      {"ReduceMin", 18, axes_input},
      {"ReduceProd", 18, axes_input},
      {"ReduceSum", 13, axes_input},
      {"ReduceSumSquare", 18, axes_input},
      {"Resize", 11, resize_10},
      {"Resize", kAlways, resize_tf_half_pixel},
      {"Resize", kAlways, resize_empty_inputs},
      {"RoiAlign", 16, roi_align_coordinates},
      {"Scatter", kAlways, scatter, "ScatterElements"},
      {"Slice", 10, slice_inputs},
      {"Softmax", 13, softmax_of_matrix},
      {"Split", 13, split_input},
      {"Split", 18, split_count},
      {"Squeeze", 13, axes_input},
      {"Sub", 7, named_broadcast},
      {"TopK", 10, topk_input},
      {"Unsqueeze", 13, axes_input},
      {"Upsample", kAlways, upsample, "Resize"},
      {"Xor", 7, named_broadcast},
  };
  return kRows;
}

namespace {

// Attributes without meaning for running a model as it is.
struct IgnoredAttribute {
  std::string_view op, name;
};
constexpr IgnoredAttribute kIgnored[] = {
    {"BatchNormalization", "momentum"},
    {"BatchNormalization", "spatial"},        // 1 after the upgrade
    {"BatchNormalization", "training_mode"},  // 0 after the upgrade
    {"GroupNormalization", "stash_type"},     // the precision of sums, which is never below float32
    {"LayerNormalization", "stash_type"},
    {"MaxPool", "storage_order"},  // of the second output
    {"Range", "stash_type"},
    {"RMSNormalization", "stash_type"},
};

void drop_meaningless(PendingNode& node) {
  const ir::Operator* row = ir::find_operator(node.op);
  if (row == nullptr) return;
  for (const IgnoredAttribute& ignored : kIgnored) {
    if (ignored.op != node.op) continue;
    const bool known =
        std::any_of(row->attributes.begin(), row->attributes.end(),
                    [&](const ir::AttributeSpec& spec) { return spec.name == ignored.name; });
    if (!known) node.attributes.erase(ignored.name);
  }
  const bool variadic = !row->outputs.empty() && row->outputs.back().arity == ir::Arity::kVariadic;
  for (size_t i = row->outputs.size(); !variadic && i < node.output_count; ++i) {
    node.dropped_outputs.emplace(i, fmt::format("output {} of {} is not supported", i, node.op));
  }
}

}  // namespace

std::string_view upgraded_name(std::string_view op, int64_t opset) {
  for (const UpgradeRow& row : upgrade_rows()) {
    if (row.op == op && opset < row.until_opset && !row.becomes.empty()) return row.becomes;
  }
  return op;
}

void upgrade(PendingNode& node) {
  const std::string op = node.op;
  for (const UpgradeRow& row : upgrade_rows()) {
    if (row.op != op || node.opset >= row.until_opset) continue;
    row.apply(node);
    if (!row.becomes.empty()) node.op = row.becomes;
  }
  drop_meaningless(node);
}

const Shape* PendingNode::shape(size_t i) const {
  if (!has_input(i)) return nullptr;
  const auto& shape = emitter.value(inputs[i]).shape;
  return shape ? &*shape : nullptr;
}

const Tensor* PendingNode::constant(size_t i) const {
  if (!has_input(i)) return nullptr;
  const ir::Value& value = emitter.value(inputs[i]);
  return value.is_constant() ? &value.constant : nullptr;
}

DType PendingNode::dtype(size_t i) const {
  return has_input(i) ? emitter.value(inputs[i]).dtype : DType::kUndefined;
}

void PendingNode::set_input(size_t i, ir::ValueId id) {
  if (inputs.size() <= i) inputs.resize(i + 1, ir::kNone);
  inputs[i] = id;
}

ir::ValueId PendingNode::add_constant(std::string_view what, Tensor tensor) {
  return emitter.add_constant(fmt::format("{}/{}", name, what), std::move(tensor));
}

ir::ValueId PendingNode::emit(std::string_view emitted, std::vector<ir::ValueId> emitted_inputs,
                              ir::Attributes emitted_attributes) {
  const std::string label = fmt::format("{}/{}", name, emitted);
  const ir::ValueId output = emitter.add_value(label);
  emitter.add_node(emitted, std::move(emitted_inputs), {output}, std::move(emitted_attributes),
                   label);
  return output;
}

void PendingNode::not_straight(std::string_view why) const {
  ir::throw_not_straight("{} \"{}\": {}", op, name, why);
}

void PendingNode::unsupported(std::string_view why) const {
  throw_unsupported("{} \"{}\": {}", op, name, why);
}

}  // namespace stretto::onnx
