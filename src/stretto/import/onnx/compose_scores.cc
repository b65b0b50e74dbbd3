#include "stretto/import/onnx/compose_scores.h"

#include <cmath>
#include <limits>

#include "stretto/base/error.h"

namespace stretto::onnx {
namespace {

using Id = Parts::Id;

// exp(x - m) / sum over those that are not 0, where m is the largest of all.
Id softmax_zero(Parts& parts, Id scores) {
  const std::vector<int64_t> last{-1};
  const Id counts = parts.op("Greater", {parts.op("Abs", {scores}), parts.number(1e-7, scores)});
  const Id most = parts.reduce("ReduceMax", scores, last);
  const Id powers = parts.op("Exp", {parts.subtract(scores, most)});
  const Id zeros = parts.multiply(scores, parts.op("Exp", {parts.op("Neg", {most})}));
  const Id sum =
      parts.reduce("ReduceSum", parts.op("Where", {counts, powers, parts.number(0, scores)}), last);
  return parts.divide(parts.op("Where", {counts, powers, zeros}), sum);
}

// sqrt(2) erfinv(2 x - 1), by Winitzki's approximation of erfinv, with the constants that ONNX
// Runtime and onnx's reference have.
Id probit(Parts& parts, Id scores) {
  const auto number = [&](double value) { return parts.number(value, scores); };
  constexpr double kA = 0.147, kPi = 3.14159;
  const Id x = parts.subtract(parts.multiply(scores, number(2)), number(1));
  const Id product = parts.multiply(parts.subtract(number(1), x), parts.add(number(1), x));
  const Id log = parts.op("Log", {product});
  const Id v = parts.add(number(2 / (kPi * kA)), parts.multiply(number(0.5), log));
  const Id v2 = parts.multiply(number(1 / kA), log);
  const Id root = parts.op("Sqrt", {parts.subtract(parts.multiply(v, v), v2)});
  const Id size = parts.op("Sqrt", {parts.subtract(root, v)});
  const Id signed_size =
      parts.op("Where", {parts.op("Less", {x, number(0)}), parts.op("Neg", {size}), size});
  return parts.multiply(number(std::sqrt(2.0)), signed_size);
}

}  // namespace

Transform transform_of(const PendingNode& node) {
  static constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                "PROBIT"};
  const std::string text = node.attributes.text("post_transform", "NONE");
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == text) return static_cast<Transform>(i);
  }
  throw_invalid(
      "{} \"{}\": post_transform: expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or "
      "PROBIT, got {}",
      node.op, node.name, text);
}

Id feature_rows(PendingNode& node, bool keep_float64) {
  expect_inputs(node, 1);
  Parts parts(node);
  Id x = node.inputs[0];
  const Shape shape = parts.shape(x);
  check(node, shape.size() == 1 || shape.size() == 2,
        fmt::format("X: expected two dimensions, got {}", shape_text(shape)));
  if (shape.size() == 1) x = parts.reshape(x, {1, shape[0]});
  return keep_float64 && parts.dtype(x) == DType::kFloat64 ? x : parts.cast(x, DType::kFloat32);
}

Id floats_attribute(PendingNode& node, std::string_view name, const Shape& shape) {
  const std::vector<double> numbers = node.attributes.numbers(name, {});
  const int64_t count = element_count(shape);
  check(node, static_cast<int64_t>(numbers.size()) == count,
        fmt::format("{}: expected {} values, got {}", name, count, numbers.size()));
  const std::vector<float> floats(numbers.begin(), numbers.end());
  return Parts(node).constant(Tensor::of<float>(shape, floats));
}

Id transformed(PendingNode& node, Id scores, Transform transform) {
  Parts parts(node);
  switch (transform) {
    case Transform::kSoftmax:
      return parts.op("Softmax", {scores}, attribute("axis", int64_t{-1}));
    case Transform::kLogistic:
      return parts.op("Sigmoid", {scores});
    case Transform::kSoftmaxZero:
      return softmax_zero(parts, scores);
    case Transform::kProbit:
      return probit(parts, scores);
    default:
      return scores;
  }
}

Id two_columns(PendingNode& node, Id score, bool complement, Transform transform) {
  if (transform == Transform::kProbit) {
    node.unsupported("post_transform PROBIT of one score for two classes is not defined");
  }
  Parts parts(node);
  if (transform == Transform::kLogistic) {
    const Id pair = parts.concat({parts.op("Neg", {score}), score}, 1);
    return parts.op("Sigmoid", {pair});
  }
  const Id other =
      complement ? parts.subtract(parts.number(1, score), score) : parts.op("Neg", {score});
  return parts.concat({other, score}, 1);
}

std::vector<int64_t> class_labels(const PendingNode& node, std::string_view name) {
  if (node.attributes.has("classlabels_strings")) {
    const ir::Attribute* texts = node.attributes.find("classlabels_strings");
    const auto* list = std::get_if<std::vector<std::string>>(texts);
    if (list != nullptr && !list->empty()) {
      node.unsupported(
          "labels that are strings are only supported outside of functions and of graphs in nodes");
    }
  }
  std::vector<int64_t> labels = node.attributes.integers(name, {});
  check(node, !labels.empty(), fmt::format("{}: expected the labels of the classes", name));
  return labels;
}

Id label_of_largest(PendingNode& node, Id scores, const std::vector<int64_t>& labels) {
  Parts parts(node);
  ir::Attributes options = attribute("axis", int64_t{1});
  options.set("keepdims", int64_t{0});
  const Id place = parts.op("ArgMax", {scores}, options);
  bool counted = true;
  for (size_t i = 0; i < labels.size(); ++i) counted &= labels[i] == static_cast<int64_t>(i);
  if (counted) return place;
  return parts.op("Gather", {parts.integers(labels), place}, attribute("axis", int64_t{0}));
}

Id label_above(PendingNode& node, Id score, double limit, const std::vector<int64_t>& labels) {
  Parts parts(node);
  const Id row = parts.reshape(score, {parts.shape(score)[0]});
  const Id second = parts.op("Greater", {row, parts.number(limit, row)});
  const auto label = [&](size_t i) { return parts.constant(Tensor::scalar<int64_t>(labels[i])); };
  return parts.op("Where", {second, label(1), label(0)});
}

}  // namespace stretto::onnx
