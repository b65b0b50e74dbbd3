// Operators of domain ai.onnx.ml on plain tensors.
#include <algorithm>
#include <cmath>
#include <set>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose_scores.h"

namespace stretto::onnx {

void compose_array_feature_extractor(PendingNode& node) {
  if (!node.has_input(0) || !node.has_input(1)) {
    throw_invalid("{} \"{}\": expected X and Y", node.op, node.name);
  }
  Parts parts(node);
  const ir::ValueId x = node.inputs[0];
  const int64_t count = element_count(parts.shape(node.inputs[1]));
  const ir::ValueId places = parts.reshape(node.inputs[1], {count});
  ir::ValueId y = parts.op("Gather", {x, places}, attribute("axis", int64_t{-1}));
  if (parts.shape(x).size() == 1) y = parts.reshape(y, {1, count});
  node.results = {y};
}

void compose_binarizer(PendingNode& node) {
  if (!node.has_input(0)) throw_invalid("{} \"{}\": expected X", node.op, node.name);
  Parts parts(node);
  const ir::ValueId x = node.inputs[0];
  const ir::ValueId limit = parts.number(node.attributes.number("threshold", 0), x);
  node.results = {parts.cast(parts.op("Greater", {x, limit}), parts.dtype(x))};
}

// (x - offset) * scale; one number may serve all columns.
void compose_scaler(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  Parts::Id y = parts.cast(node.inputs[0], DType::kFloat32);
  check(node, !parts.shape(y).empty(), "X: expected one dimension or more");
  const int64_t columns = parts.shape(y).back();
  for (const char* name : {"offset", "scale"}) {
    const auto given = static_cast<int64_t>(node.attributes.numbers(name, {}).size());
    if (given == 0) continue;
    const auto numbers = floats_attribute(node, name, {given == 1 ? 1 : columns});
    y = name == std::string_view("scale") ? parts.multiply(y, numbers) : parts.subtract(y, numbers);
  }
  node.results = {y};
}

// Rows over their largest element, the sum of their sizes, or their length. A row of which that is
// 0 stays as it is.
void compose_normalizer(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const Parts::Id x = parts.cast(node.inputs[0], DType::kFloat32);
  const size_t rank = parts.shape(x).size();
  check(node, rank == 1 || rank == 2, "X: expected one or two dimensions");
  const std::string norm = node.attributes.text("norm", "MAX");
  check(node, norm == "MAX" || norm == "L1" || norm == "L2",
        fmt::format("norm: expected MAX, L1 or L2, got {}", norm));
  const Parts::Id size = parts.reduce(norm == "MAX"  ? "ReduceMax"
                                      : norm == "L1" ? "ReduceL1"
                                                     : "ReduceL2",
                                      x, {static_cast<int64_t>(rank) - 1});
  const Parts::Id zero = parts.op("Equal", {size, parts.number(0, x)});
  node.results = {parts.divide(x, parts.op("Where", {zero, parts.number(1, x), size}))};
}

// Elements that are the replaced value, which may be NaN, become the number of their column.
void compose_imputer(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const Parts::Id x = node.inputs[0];
  const bool real = is_float(parts.dtype(x));
  const ir::Attributes& a = node.attributes;
  check(node, !parts.shape(x).empty(), "X: expected one dimension or more");
  const int64_t columns = parts.shape(x).back();
  const std::string name = real ? "imputed_value_floats" : "imputed_value_int64s";
  const std::vector<double> floats = a.numbers("imputed_value_floats", {});
  const std::vector<int64_t> integers = a.integers("imputed_value_int64s", {});
  const auto given = static_cast<int64_t>(real ? floats.size() : integers.size());
  check(node, given == 1 || given == columns,
        fmt::format("{}: expected {} values, got {}", name, columns, given));
  const Tensor values = real ? Tensor::of<double>({given}, floats) : Tensor::int64s(integers);
  const double replaced = a.number("replaced_value_float", 0);
  const Tensor whole = Tensor::scalar<int64_t>(a.integer("replaced_value_int64", 0));
  const Parts::Id wanted =
      real ? parts.number(replaced, x) : parts.constant(whole.converted(parts.dtype(x)));
  const Parts::Id fits =
      real && std::isnan(replaced) ? parts.op("IsNaN", {x}) : parts.op("Equal", {x, wanted});
  node.results = {parts.op("Where", {fits, parts.constant(values.converted(parts.dtype(x))), x})};
}

// One column per category behind the input's dimensions.
void compose_one_hot_encoder(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const std::vector<int64_t> categories = node.attributes.integers("cats_int64s", {});
  check(node, !categories.empty(), "cats_int64s: expected categories for an input of numbers");
  if (node.attributes.integer("zeros", 1) == 0) {
    node.unsupported("zeros = 0, which refuses other values in a run, is not supported");
  }
  std::set<int64_t> known;
  for (int64_t category : categories) {
    if (!known.insert(category).second) {
      node.unsupported(fmt::format("cats_int64s: {} stands there twice", category));
    }
  }
  Shape shape = parts.shape(node.inputs[0]);
  shape.push_back(1);
  const Parts::Id x = parts.reshape(parts.cast(node.inputs[0], DType::kInt64), shape);
  const Parts::Id equal = parts.op("Equal", {x, parts.integers(categories)});
  node.results = {parts.cast(equal, DType::kFloat32)};
}

// The inputs' columns side by side.
void compose_feature_vectorizer(PendingNode& node) {
  const std::vector<int64_t> sizes = node.attributes.integers("inputdimensions", {});
  check(node, !node.inputs.empty(), "expected an input");
  check(
      node, sizes.empty() || sizes.size() == node.inputs.size(),
      fmt::format("inputdimensions: expected {} values, got {}", node.inputs.size(), sizes.size()));
  expect_inputs(node, node.inputs.size());
  Parts parts(node);
  std::vector<Parts::Id> columns;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Parts::Id x = parts.cast(node.inputs[i], DType::kFloat32);
    const Shape shape = parts.shape(x);
    check(node, shape.size() == 1 || shape.size() == 2, "expected one or two dimensions");
    if (shape.size() == 1) x = parts.reshape(x, {1, shape[0]});
    const int64_t width = parts.shape(x)[1], wanted = sizes.empty() ? width : sizes[i];
    check(node, wanted == width,
          fmt::format("inputdimensions: input {} has {} columns, not {}", i, width, wanted));
    columns.push_back(x);
  }
  node.results = {columns.size() == 1 ? columns[0] : parts.concat(columns, 1)};
}

}  // namespace stretto::onnx
