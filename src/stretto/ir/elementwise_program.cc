#include <limits>

#include "stretto/ir/fused.h"
#include "stretto/ir/operator.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::ir {
namespace {

ElementwiseArg input(size_t i) {
  return {.kind = ElementwiseArg::Kind::kInput, .index = static_cast<int>(i)};
}
ElementwiseArg result(size_t i) {
  return {.kind = ElementwiseArg::Kind::kResult, .index = static_cast<int>(i)};
}
ElementwiseArg literal(double value) {
  return {.kind = ElementwiseArg::Kind::kLiteral, .literal = value};
}

// Operators of any number of inputs as a chain of steps with two.
std::vector<ElementwiseStep> chain(std::string_view op, size_t inputs) {
  if (inputs == 1) return {{.op = "Copy", .args = {input(0)}}};
  std::vector<ElementwiseStep> steps;
  for (size_t i = 1; i < inputs; ++i) {
    steps.push_back({.op = std::string(op), .args = {i == 1 ? input(0) : result(i - 2), input(i)}});
  }
  return steps;
}

// IsInf of the signs that it looks for; NaN is equal to nothing.
std::vector<ElementwiseStep> infinity_test(const Node& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool negative = node.attributes.integer("detect_negative", 1) != 0;
  const bool positive = node.attributes.integer("detect_positive", 1) != 0;
  if (!negative && !positive) return {{.op = "Less", .args = {input(0), input(0)}}};  // never
  if (negative != positive) {
    return {{.op = "Equal", .args = {input(0), literal(positive ? kInfinity : -kInfinity)}}};
  }
  return {{.op = "Abs", .args = {input(0)}},
          {.op = "Equal", .args = {result(0), literal(kInfinity)}}};
}

// ONNX's name of an operation and that of its row; they differ for these.
std::string_view row_name(const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "Sum") return "Add";
  if (op == "PRelu") return "LeakyRelu";  // whose slope is an input then
  if (op == "Swish") return "Silu";
  if (op == "Mod" && node.attributes.integer("fmod", 0) != 0) return "Fmod";
  if (op == "Gelu" && node.attributes.text("approximate", "none") == "tanh") return "GeluTanh";
  return op;
}

}  // namespace

std::optional<std::vector<ElementwiseStep>> elementwise_program(const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "IsInf") return infinity_test(node);
  const ElementRow* row = find_element(row_name(node));
  if (row == nullptr || (op == "Swish" && node.attributes.number("alpha", 1) != 1)) return {};
  if (op == "Sum" || op == "Min" || op == "Max") return chain(row->name, node.inputs.size());
  // ONNX has no operators of the other rows' names, or they are handled in row_name() and here.
  const bool renamed = row->name != op || op == "Gelu" || op == "Clip";
  if (row->use != ElementRow::Use::kOnnx && !renamed) return {};
  ElementwiseStep step{.op = std::string(row->name), .args = {}};
  for (size_t i = 0; i < node.inputs.size(); ++i) step.args.push_back(input(i));
  const double defaults[] = {row->alpha, row->beta};
  if (op == "Clip") {
    step.args.resize(1);
    for (size_t i = 1; i <= 2; ++i) {
      const bool present = i < node.inputs.size() && node.inputs[i] != kNone;
      step.args.push_back(present ? input(i) : literal(defaults[i - 1]));
    }
  } else if (!renamed) {
    constexpr std::string_view kNames[] = {"alpha", "beta"};
    for (int i = 0; i < row->numbers; ++i) {
      step.args.push_back(literal(node.attributes.number(kNames[i], defaults[i])));
    }
  }
  return std::vector{std::move(step)};
}

}  // namespace stretto::ir
