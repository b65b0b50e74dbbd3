#include "stretto/kernels/elementwise/problem.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "stretto/base/error.h"
#include "stretto/ir/fused.h"
#include "stretto/runtime/lowering/rules.h"
#include "stretto/tensor/narrow.h"

namespace stretto::runtime {
namespace {

using ir::ElementwiseArg;
using ir::ElementwiseStep;
using kernels::ElementwiseProblem;

bool is_whole(DType dtype) { return is_integer(dtype) || dtype == DType::kBool; }

bool supported(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16 || is_whole(dtype);
}

// Appends the steps to a problem; false when one of them has no kernel form.
bool append_steps(ElementwiseProblem& p, const std::vector<ElementwiseStep>& steps) {
  std::vector<uint8_t> results;
  const auto operand = [&](const ElementwiseArg& arg) -> uint8_t {
    switch (arg.kind) {
      case ElementwiseArg::Kind::kInput:
        return static_cast<uint8_t>(arg.index);
      case ElementwiseArg::Kind::kResult:
        return results[arg.index];
      case ElementwiseArg::Kind::kLiteral:
        break;
    }
    return kernels::append(p,
                           {.op = ElementOp::kConstant, .alpha = static_cast<float>(arg.literal)});
  };
  for (const ElementwiseStep& step : steps) {
    const ElementRow* row = find_element(step.op);
    if (row == nullptr || static_cast<int>(step.args.size()) != row->arguments()) return false;
    // A slope that is no number is an operand.
    if (row->op == ElementOp::kLeakyRelu && step.args[1].kind != ElementwiseArg::Kind::kLiteral) {
      row = &element_row(ElementOp::kPRelu);
    }
    kernels::Instruction instruction{.op = row->op};
    const auto operands = static_cast<size_t>(row->operands);
    for (size_t i = operands; i < step.args.size(); ++i) {
      if (step.args[i].kind != ElementwiseArg::Kind::kLiteral) return false;
      const auto number = static_cast<float>(step.args[i].literal);
      (i == operands ? instruction.alpha : instruction.beta) = number;
    }
    if (operands > 0) instruction.a = operand(step.args[0]);
    if (operands > 1) instruction.b = operand(step.args[1]);
    if (operands > 2) instruction.c = operand(step.args[2]);
    results.push_back(kernels::append(p, instruction));
  }
  return true;
}

// Float arithmetic unless everything is integer or bool: then that of the integers, which all have
// one type, or of bytes. In double precision where anything has it.
DType compute_type(DType output, const std::vector<DType>& inputs) {
  DType compute = DType::kUInt8;
  const auto wide = [](DType dtype) { return dtype == DType::kFloat64; };
  if (wide(output) || std::any_of(inputs.begin(), inputs.end(), wide)) return DType::kFloat64;
  for (DType dtype : inputs) {
    if (is_float(dtype)) return DType::kFloat32;
    if (is_integer(dtype)) compute = dtype;
  }
  return is_float(output) ? DType::kFloat32 : compute;
}

// `id` as a rank-4 value for the blocked layout: constants may be viewed with leading ones.
ir::ValueId as_image(Lowering& l, ir::ValueId id) {
  const Shape& shape = l.shape(id);
  if (shape.size() == 4 || l.constant(id) == nullptr || shape.size() > 4) return id;
  Shape image(4, 1);
  std::copy(shape.begin(), shape.end(), image.end() - static_cast<int64_t>(shape.size()));
  const std::string name = l.graph().value(id).name + "/image";
  return l.graph().add_constant(name, l.constant(id)->reshaped(image));
}

// `append` adds the instructions to a problem, and returns false when it cannot. `compute` is what
// the types ask for unless given.
template <typename Append>
bool lower_problem(Lowering& l, const ir::Node& node, std::vector<ir::ValueId> inputs,
                   const Append& append, std::optional<DType> compute = {}) {
  const ir::ValueId y = node.outputs[0];
  const DType output = l.graph().value(y).dtype;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (ir::ValueId id : inputs) {
    shapes.push_back(l.shape(id));
    dtypes.push_back(l.graph().value(id).dtype);
  }
  if (inputs.empty() || inputs.size() > ElementwiseProblem::kMaxInputs || !supported(output) ||
      !std::all_of(dtypes.begin(), dtypes.end(), supported)) {
    return false;
  }
  std::vector<Lowering::Choice<ElementwiseProblem>> choices;
  const bool image =
      l.shape(y).size() == 4 && output == DType::kFloat32 &&
      std::all_of(dtypes.begin(), dtypes.end(), [](DType d) { return d == DType::kFloat32; });
  const auto offer = [&](ElementwiseProblem p) {
    p.output = output;
    p.compute = compute.value_or(compute_type(output, dtypes));
    if (!append(p) || (p.compute == DType::kFloat64 && !works_in_doubles(p))) return false;
    std::vector<Layout> layouts;
    for (const kernels::TensorInfo& info : kernels::problem_signature(p).inputs) {
      layouts.push_back(info.layout);
    }
    choices.push_back({p, std::move(layouts), {p.layout}});
    return true;
  };
  try {
    if (!offer(kernels::elementwise_problem(l.target(), l.shape(y), shapes, dtypes))) return false;
    if (image) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i] = as_image(l, inputs[i]);
        shapes[i] = l.shape(inputs[i]);
      }
      // One number is read from plain memory where it is repeated along the channels.
      const bool repeated = l.shape(y)[1] != 1;
      const bool images = std::all_of(shapes.begin(), shapes.end(), [&](const Shape& s) {
        return s.size() == 4 || (element_count(s) == 1 && repeated);
      });
      if (images) offer(kernels::blocked_elementwise_problem(l.target(), l.shape(y), shapes));
    }
  } catch (const Unsupported&) {
    if (choices.empty()) return false;  // too many inputs, dimensions or instructions
  }
  return l.add(node, kernels::kElementwise, inputs, {y}, choices);
}

bool lower_steps(Lowering& l, const ir::Node& node, std::vector<ir::ValueId> inputs,
                 const std::vector<ElementwiseStep>& steps, std::optional<DType> compute = {}) {
  return lower_problem(
      l, node, std::move(inputs), [&](ElementwiseProblem& p) { return append_steps(p, steps); },
      compute);
}

// Whether bytes hold every value of a program on bools.
bool all_truth(const std::vector<ElementwiseStep>& steps, size_t inputs) {
  const std::vector<bool> truth = ir::truth_of(steps, std::vector<bool>(inputs, true));
  const auto in_bytes = [](const ElementwiseStep& step) {
    return step.op != "IsNaN" &&
           std::all_of(step.args.begin(), step.args.end(), [](const ElementwiseArg& arg) {
             return arg.kind != ElementwiseArg::Kind::kLiteral || arg.literal == 0 ||
                    arg.literal == 1;
           });
  };
  return std::all_of(truth.begin(), truth.end(), [](bool is_truth) { return is_truth; }) &&
         std::all_of(steps.begin(), steps.end(), in_bytes);
}

ElementwiseArg input_arg(int i) { return {.kind = ElementwiseArg::Kind::kInput, .index = i}; }
ElementwiseArg result_arg(int i) { return {.kind = ElementwiseArg::Kind::kResult, .index = i}; }
}  // namespace

bool lower_fused_elementwise(Lowering& l, const ir::Node& node) {
  // Integers too are computed with as floats here, between the steps as well; the passes fuse
  // floats and bools only.
  const auto is_bool = [&](ir::ValueId id) { return l.graph().value(id).dtype == DType::kBool; };
  const auto fits = [&](ir::ValueId id) { return l.is_float32(id) || is_bool(id); };
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), fits) || !fits(node.outputs[0])) {
    return false;
  }
  const auto steps = ir::parse_elementwise(node.attributes.text("program", ""));
  const bool bytes = is_bool(node.outputs[0]) &&
                     std::all_of(node.inputs.begin(), node.inputs.end(), is_bool) &&
                     all_truth(steps, node.inputs.size());
  return lower_steps(l, node, node.inputs, steps, bytes ? DType::kUInt8 : DType::kFloat32);
}

namespace {

bool lower_cast(Lowering& l, const ir::Node& node) {
  const char* const copy =
      l.graph().value(node.outputs[0]).dtype == DType::kBool ? "ToBool" : "Copy";
  return lower_steps(l, node, {node.inputs[0]}, {{.op = copy, .args = {input_arg(0)}}});
}

// Bounds of integers are operands like any others.
bool lower_integer_clip(Lowering& l, const ir::Node& node) {
  std::vector<ir::ValueId> inputs{node.inputs[0]};
  std::vector<ElementwiseStep> steps;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == ir::kNone) continue;
    const ElementwiseArg value =
        steps.empty() ? input_arg(0) : result_arg(static_cast<int>(steps.size()) - 1);
    steps.push_back({.op = i == 1 ? "Max" : "Min",
                     .args = {value, input_arg(static_cast<int>(inputs.size()))}});
    inputs.push_back(node.inputs[i]);
  }
  if (steps.empty()) steps.push_back({.op = "Copy", .args = {input_arg(0)}});
  return lower_steps(l, node, inputs, steps);
}

}  // namespace

bool lower_elementwise(Lowering& l, const ir::Node& node) {
  const std::string_view op = node.op->name;
  // An integer to the power of a float is an integer again: more digits than floats hold.
  if (op == "Pow" && !l.is_float32(node.outputs[0])) return false;
  if (op == "Cast" || op == "CastLike") return lower_cast(l, node);
  if (op == "Clip" && is_integer(l.graph().value(node.inputs[0]).dtype)) {
    return lower_integer_clip(l, node);
  }
  auto steps = ir::elementwise_program(node);
  if (!steps) return false;
  if (op != "Clip") return lower_steps(l, node, node.inputs, *steps);
  // Kernels take the bounds as numbers.
  if (!l.is_float32(node.inputs[0])) return false;
  for (ElementwiseArg& bound : std::span(steps->front().args).subspan(1)) {
    if (bound.kind == ElementwiseArg::Kind::kLiteral) continue;
    const Tensor* value = l.constant(node.inputs[static_cast<size_t>(bound.index)]);
    if (value == nullptr || value->count() != 1) return false;
    bound = {.kind = ElementwiseArg::Kind::kLiteral, .literal = value->as_doubles()[0]};
  }
  return lower_steps(l, node, {node.inputs[0]}, *steps);
}

bool lower_integers(Lowering& l, const ir::Node& node) {
  using kernels::Instruction;
  const std::string_view op = node.op->name;
  if (!is_integer(l.graph().value(node.inputs[0]).dtype)) {
    return op == "Mod" && lower_elementwise(l, node);
  }
  return lower_problem(l, node, node.inputs, [&](ElementwiseProblem& p) {
    const auto bits = [&](ElementOp element) {
      kernels::append(p, {.op = element, .a = 0, .b = 1, .alpha = Instruction::kEachBit});
    };
    if (op == "BitwiseAnd") bits(ElementOp::kAnd);
    if (op == "BitwiseOr") bits(ElementOp::kOr);
    if (op == "BitwiseNot") {
      kernels::append(p, {.op = ElementOp::kNot, .a = 0, .alpha = Instruction::kEachBit});
    }
    if (op == "BitwiseXor") bits(ElementOp::kXor);
    if (op == "Mod") {
      const bool like_c = node.attributes.integer("fmod", 0) != 0;
      kernels::append(p, {.op = ElementOp::kDiv,
                          .a = 0,
                          .b = 1,
                          .alpha = like_c ? Instruction::kRestOfA : Instruction::kRestOfB});
    }
    return true;
  });
}

namespace {

// A scale or a zero point of one number for all of `x`, or of one for each place along the axis,
// as something that broadcasts to x; kNone when it has another form.
ir::ValueId along_axis(Lowering& l, const ir::Node& node, ir::ValueId id) {
  const Shape &x = l.shape(node.inputs[0]), &shape = l.shape(id);
  if (shape.empty()) return id;
  Shape spread(x.size(), 1);
  if (element_count(shape) != 1) {
    const auto rank = static_cast<int64_t>(x.size());
    const int64_t axis = normalize_axis(node.attributes.integer("axis", 1), rank, "axis");
    if (shape.size() != 1 || node.attributes.integer("block_size", 0) != 0) return ir::kNone;
    spread[static_cast<size_t>(axis)] = shape[0];
  }
  if (spread == shape) return id;
  const Tensor* value = l.constant(id);
  if (value == nullptr) return ir::kNone;
  return l.graph().add_constant(l.graph().value(id).name + "/spread", value->reshaped(spread));
}

// x, the scale and, where there is one, the zero point; empty when kernels cannot take them.
std::vector<ir::ValueId> quantization_inputs(Lowering& l, const ir::Node& node) {
  std::vector<ir::ValueId> inputs{node.inputs[0]};
  if (!l.is_float32(node.inputs[1])) return {};
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == ir::kNone) continue;
    inputs.push_back(along_axis(l, node, node.inputs[i]));
    if (inputs.back() == ir::kNone) return {};
  }
  return inputs;
}

}  // namespace

bool lower_quantize(Lowering& l, const ir::Node& node) {
  const DType to = l.graph().value(node.outputs[0]).dtype;
  if (!is_integer(to) || !l.is_float32(node.inputs[0]) ||
      node.attributes.text("precision", "float32") != "float32") {
    return false;
  }
  const std::vector<ir::ValueId> inputs = quantization_inputs(l, node);
  if (inputs.empty()) return false;
  const auto [low, high] = integer_range(to);
  const auto literal = [](double value) {
    return ElementwiseArg{.kind = ElementwiseArg::Kind::kLiteral, .literal = value};
  };
  std::vector<ElementwiseStep> steps;
  const auto step = [&](const char* op, std::vector<ElementwiseArg> args) {
    steps.push_back({.op = op, .args = std::move(args)});
    return result_arg(static_cast<int>(steps.size()) - 1);
  };
  ElementwiseArg y = step("Round", {step("Div", {input_arg(0), input_arg(1)})});
  const ElementwiseArg is_number = step("Equal", {y, y});
  if (inputs.size() > 2) y = step("Add", {y, input_arg(2)});
  y = step("Min", {step("Max", {y, literal(low)}), literal(high)});
  step("Where", {is_number, y, literal(0)});  // as in the reference
  return lower_steps(l, node, inputs, steps);
}

bool lower_dequantize(Lowering& l, const ir::Node& node) {
  const DType from = l.graph().value(node.inputs[0]).dtype;
  if (!is_integer(from) || !l.is_float32(node.outputs[0])) return false;
  const std::vector<ir::ValueId> inputs = quantization_inputs(l, node);
  // Of differences of large integers, floats lose digits.
  if (inputs.empty() || (from == DType::kInt32 && inputs.size() > 2)) return false;
  if (inputs.size() == 2) {
    return lower_steps(l, node, inputs, {{.op = "Mul", .args = {input_arg(0), input_arg(1)}}});
  }
  return lower_steps(l, node, inputs,
                     {{.op = "Sub", .args = {input_arg(0), input_arg(2)}},
                      {.op = "Mul", .args = {result_arg(0), input_arg(1)}}});
}

bool lower_batch_norm(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  if (x.size() < 2 || !l.is_float32(node.inputs[0])) return false;
  for (size_t i = 1; i < 5; ++i) {
    if (l.constant(node.inputs[i]) == nullptr) return false;
  }
  const auto values = [&](size_t i) { return l.constant(node.inputs[i])->as_doubles(); };
  const auto scale = values(1), bias = values(2), mean = values(3), variance = values(4);
  const double epsilon = node.attributes.number("epsilon", 1e-5f);
  Shape per_channel(x.size(), 1);
  per_channel[1] = x[1];
  Tensor factor(DType::kFloat32, per_channel), offset(DType::kFloat32, per_channel);
  for (size_t c = 0; c < scale.size(); ++c) {
    const double f = scale[c] / std::sqrt(variance[c] + epsilon);
    // Multiplied out, infinities meet that would not have met.
    if (!std::isfinite(f) || !std::isfinite(bias[c] - mean[c] * f)) return false;
    factor.mutable_values<float>()[c] = static_cast<float>(f);
    offset.mutable_values<float>()[c] = static_cast<float>(bias[c] - mean[c] * f);
  }
  const ir::ValueId f = l.graph().add_constant(node.name + "/factor", std::move(factor));
  const ir::ValueId o = l.graph().add_constant(node.name + "/offset", std::move(offset));
  return lower_steps(l, node, {node.inputs[0], f, o},
                     {{.op = "Mul", .args = {input_arg(0), input_arg(1)}},
                      {.op = "Add", .args = {result_arg(0), input_arg(2)}}});
}

}  // namespace stretto::runtime
