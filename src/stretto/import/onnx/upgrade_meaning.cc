// Operators that were replaced and meanings that changed.
#include <algorithm>
#include <string>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/tensor.h"
#include "stretto/import/onnx/upgrade_functions.h"

namespace stretto::onnx {
namespace {

ir::Attributes one(std::string name, ir::Attribute value) {
  ir::Attributes attributes;
  attributes.set(std::move(name), std::move(value));
  return attributes;
}

// How opset 10 and Upsample map coordinates.
void set_old_coordinates(PendingNode& node) {
  node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attributes.set("nearest_mode", std::string("floor"));
  if (node.attributes.text("mode", "nearest") == "bilinear") {
    node.attributes.set("mode", std::string("linear"));
  }
}

}  // namespace

void dropout(PendingNode& node) {
  if (node.has_input(2)) {
    const Tensor *training = node.constant(2), *ratio = node.constant(1);
    const auto is_zero = [](const Tensor* tensor) {
      return tensor != nullptr && tensor->count() == 1 && tensor->as_doubles()[0] == 0;
    };
    const bool nothing_goes = node.has_input(1) && is_zero(ratio);
    if (training == nullptr && !nothing_goes) {
      node.not_straight(
          "training_mode must be known when the model is optimised, but it depends on the model's "
          "input values");
    }
    if (!is_zero(training) && !nothing_goes) {
      node.unsupported("training mode; export the model for inference");
    }
  }
  node.inputs.resize(std::min<size_t>(node.inputs.size(), 1));
  node.attributes = {};
  if (node.output_count < 2 || node.shape(0) == nullptr) return;
  // Nothing is dropped.
  const DType dtype = node.opset < 10 ? node.dtype(0) : DType::kBool;
  Tensor mask(DType::kBool, *node.shape(0));
  for (bool& kept : mask.mutable_values<bool>()) kept = true;
  node.results = {node.inputs[0], node.add_constant("mask", mask.converted(dtype))};
}

void resize_10(PendingNode& node) {
  if (node.has_input(1)) {
    const ir::ValueId scales = node.inputs[1];
    node.inputs = {node.inputs[0], ir::kNone, scales};
  }
  set_old_coordinates(node);
}

void upsample(PendingNode& node) {
  if (node.attributes.has("scales")) {  // until opset 8
    const std::vector<double> numbers = node.attributes.numbers("scales", {});
    const std::vector<float> scales(numbers.begin(), numbers.end());
    node.attributes.erase("scales");
    node.set_input(
        1, node.add_constant("scales",
                             Tensor::of<float>({static_cast<int64_t>(scales.size())}, scales)));
  }
  resize_10(node);
}

void scatter(PendingNode&) {}

void batch_normalization(PendingNode& node) {
  if (node.attributes.integer("spatial", 1) != 1) {
    node.unsupported("spatial = 0, statistics for every pixel; export with opset 9 or newer");
  }
  if (node.attributes.integer("training_mode", 0) != 0) return train_batch_normalization(node);
  for (size_t i = 1; i < node.output_count; ++i) {
    node.dropped_outputs.emplace(i,
                                 "the statistics of a BatchNormalization are only made in "
                                 "training");
  }
}

// Without an axis, the second input has the last dimensions of the first.
void named_broadcast(PendingNode& node) {
  const bool from_axis =
      node.attributes.integer("broadcast", 0) != 0 && node.attributes.has("axis");
  int64_t axis = node.attributes.integer("axis", 0);
  node.attributes.erase("broadcast");
  node.attributes.erase("axis");
  const Shape *a = node.shape(0), *b = node.shape(1);
  if (!from_axis || a == nullptr || b == nullptr) return;
  const auto rank = static_cast<int64_t>(a->size());
  if (axis < 0) axis += rank;
  const int64_t after = rank - axis - static_cast<int64_t>(b->size());
  if (axis < 0 || after < 0) {
    throw_invalid("{} \"{}\": axis {} does not place shape {} in shape {}", node.op, node.name,
                  axis, shape_text(*b), shape_text(*a));
  }
  if (after == 0) return;
  Shape shape = *b;
  shape.insert(shape.end(), static_cast<size_t>(after), 1);
  node.inputs[1] = node.emit(
      "Reshape", {node.inputs[1], node.add_constant("broadcast_shape", Tensor::int64s(shape))});
}

void output_sequence(PendingNode& node) { node.attributes.erase("output_sequence"); }

void test_mode(PendingNode& node) {
  if (node.attributes.integer("is_test", 0) == 0) {
    node.unsupported("training mode; export the model for inference");
  }
  node.attributes.erase("is_test");
}

void type_names(PendingNode& node) {
  for (const std::string_view name : kTypeAttributes) {
    const ir::Attribute* attribute = node.attributes.find(name);
    if (attribute == nullptr) continue;
    const auto* type = std::get_if<int64_t>(attribute);
    if (type == nullptr) {
      throw_invalid("{} \"{}\": attribute {}: expected an integer", node.op, node.name, name);
    }
    if (*type == 0) {
      node.attributes.erase(std::string(name));
      continue;
    }
    const std::string what = fmt::format("{} \"{}\"", node.op, node.name);
    const DType dtype = element_type(node.source, static_cast<DataType>(*type), what, nullptr);
    node.attributes.set(std::string(name), std::string(dtype_name(dtype)));
  }
}

// Divisions have the precision of the scale.
void quantize_precision(PendingNode& node) {
  type_names(node);
  const DType scale = node.dtype(1);
  if (!node.attributes.has("precision") &&
      (scale == DType::kFloat16 || scale == DType::kBFloat16)) {
    node.attributes.set("precision", std::string(dtype_name(scale)));
  }
}

void random_like(PendingNode& node) {
  type_names(node);
  if (node.has_input(0) && !node.attributes.has("dtype")) {
    node.attributes.set("dtype", std::string(dtype_name(node.dtype(0))));
  }
}

void bit_cast(PendingNode& node) {
  type_names(node);
  if (node.has_input(0)) node.attributes.set("from", std::string(dtype_name(node.dtype(0))));
}

void grid_sample_modes(PendingNode& node) {
  const std::string mode = node.attributes.text("mode", "bilinear");
  if (mode == "bilinear") node.attributes.set("mode", std::string("linear"));
  if (mode == "bicubic") node.attributes.set("mode", std::string("cubic"));
}

void roi_align_coordinates(PendingNode& node) {
  node.attributes.set("coordinate_transformation_mode", std::string("output_half_pixel"));
}

void group_normalization(PendingNode& node) {
  const Shape* x = node.shape(0);
  const int64_t groups = node.attributes.integer("num_groups", 0);
  if (x == nullptr || x->size() < 2 || groups <= 0 || (*x)[1] % groups != 0) return;
  const int64_t channels = (*x)[1];
  for (size_t i = 1; i <= 2; ++i) {
    const Shape* given = node.shape(i);
    if (given == nullptr || *given != Shape{groups}) return;
    const int64_t column[] = {groups, 1}, full[] = {groups, channels / groups}, flat[] = {channels};
    ir::ValueId id = node.inputs[i];
    id = node.emit("Reshape", {id, node.add_constant("groups", Tensor::int64s(column))});
    id = node.emit("Expand", {id, node.add_constant("per_group", Tensor::int64s(full))});
    id = node.emit("Reshape", {id, node.add_constant("channels", Tensor::int64s(flat))});
    node.inputs[i] = id;
  }
}

void prelu_slope(PendingNode& node) {
  const Shape* x = node.shape(0);
  const Shape* slope = node.shape(1);
  const bool per_channel = x != nullptr && slope != nullptr && x->size() > 2 &&
                           slope->size() == 1 && (*slope)[0] == (*x)[1] && (*slope)[0] != 1 &&
                           x->back() != (*slope)[0];
  if (!per_channel) return;
  std::vector<int64_t> shape(x->size() - 1, 1);
  shape[0] = (*slope)[0];
  node.inputs[1] = node.emit(
      "Reshape", {node.inputs[1], node.add_constant("slope_shape", Tensor::int64s(shape))});
}

void resize_tf_half_pixel(PendingNode& node) {
  const std::string mode = "coordinate_transformation_mode";
  if (node.attributes.text(mode, "") != "tf_half_pixel_for_nn" ||
      node.attributes.text("mode", "nearest") != "nearest") {
    return;
  }
  // Half a pixel more than half_pixel asks for: floor(x + 0.5) and ceil(x + 0.5 - 0.5) of that x.
  const std::string rounding = node.attributes.text("nearest_mode", "round_prefer_floor");
  if (rounding != "floor" && rounding != "round_prefer_floor") return;
  node.attributes.set(mode, std::string("half_pixel"));
  node.attributes.set("nearest_mode",
                      std::string(rounding == "floor" ? "round_prefer_ceil" : "ceil"));
}

void resize_empty_inputs(PendingNode& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Shape* shape = node.shape(i);
    if (shape != nullptr && *shape == Shape{0}) node.inputs[i] = ir::kNone;
  }
  // Only this mode looks at the region of interest.
  const std::string mode = node.attributes.text("coordinate_transformation_mode", "half_pixel");
  if (node.has_input(1) && mode != "tf_crop_and_resize") node.inputs[1] = ir::kNone;
}

void softmax_of_matrix(PendingNode& node) {
  const Shape* shape = node.shape(0);
  int64_t axis = node.attributes.integer("axis", 1);
  if (shape == nullptr) return;
  const Shape x = *shape;
  const auto rank = static_cast<int64_t>(x.size());
  if (axis < -rank || axis > rank) {
    throw_invalid("{} \"{}\": axis {} of an input of rank {}", node.op, node.name, axis, rank);
  }
  if (axis < 0) axis += rank;
  node.attributes.set("axis", axis);
  // Over one axis only, both meanings are the same.
  if (axis < rank && std::all_of(x.begin() + axis + 1, x.end(), [](int64_t d) { return d == 1; })) {
    return;
  }
  ir::ValueId id = node.emit("Flatten", {node.inputs[0]}, one("axis", axis));
  id = node.emit(node.op, {id}, one("axis", int64_t{1}));
  node.inputs = {id, node.add_constant("shape", Tensor::int64s(x))};
  node.op = "Reshape";
  node.attributes = one("allowzero", int64_t{1});
}

void split_count(PendingNode& node) {
  if (!node.has_input(1) && !node.attributes.has("num_outputs")) {
    node.attributes.set("num_outputs", static_cast<int64_t>(node.output_count));
  }
}

}  // namespace stretto::onnx
