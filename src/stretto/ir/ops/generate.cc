// Operators that make tensors out of numbers and shapes: Constant, ConstantOfShape, OneHot, Range,
// Shape, Size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kOutputs[] = {{"output"}};
constexpr Port kIntOutputs[] = {{"output", kInt64}};

constexpr AttributeSpec kConstantAttributes[] = {{"value", AttributeKind::kTensor, true}};

void infer_constant(Inference& c) {
  const Tensor& value = *c.attributes().tensor("value");
  c.set_output(0, value.dtype(), value.shape());
}

void evaluate_constant(Evaluation& c) { c.outputs[0] = *c.attributes.tensor("value"); }

constexpr Port kFillInputs[] = {{"input", kInt64}};
constexpr AttributeSpec kFillAttributes[] = {{"value", AttributeKind::kTensor}};

void infer_fill(Inference& c) {
  const Tensor* value = c.attributes().tensor("value");
  if (value != nullptr && value->count() != 1) {
    throw_invalid("value: expected one element, got shape {}", shape_text(value->shape()));
  }
  c.set_output(0, value == nullptr ? DType::kFloat32 : value->dtype(),
               c.constant_integers(0, "input"));
}

void evaluate_fill(Evaluation& c) {
  const Tensor* value = c.attributes.tensor("value");
  if (value == nullptr) {
    c.make_output(0);
    return;
  }
  Tensor& out = make_output_like(c, 0, *value);
  with_width(out.dtype(), [&]<typename T>() {
    parallel(c.team, out.count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      std::fill(data_of<T>(out) + begin, data_of<T>(out) + end, *data_of<T>(*value));
    });
  });
}

constexpr Port kOneHotInputs[] = {{"indices", kRealOrInteger},
                                  {"depth", kRealOrInteger},
                                  {"values", kAllTypes, Arity::kRequired, 'T'}};
constexpr Port kOneHotOutputs[] = {{"output", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kOneHotAttributes[] = {{"axis", AttributeKind::kInt}};

void infer_one_hot(Inference& c) {
  const Tensor* depth = c.constant(1);
  if (depth == nullptr) c.constant_integers(1, "depth");
  const std::vector<double> size = depth->as_doubles();
  if (size.size() != 1 || !(size[0] >= 1) || size[0] > static_cast<double>(kMaxElements)) {
    throw_invalid("depth: expected one positive value, got {}", fmt::join(size, ", "));
  }
  if (c.shape(2) != Shape{2}) {
    throw_invalid("values: expected off and on value, got shape {}", shape_text(c.shape(2)));
  }
  Shape shape = c.shape(0);
  const int64_t axis = normalize_axis(c.attributes().integer("axis", -1), c.rank(0) + 1, "axis");
  shape.insert(shape.begin() + axis, static_cast<int64_t>(size[0]));
  c.set_output(0, c.dtype(2), std::move(shape));
}

// An index outside [-depth, depth) switches nothing on.
void evaluate_one_hot(Evaluation& c) {
  const std::vector<int64_t> indices = c.inputs[0].converted(DType::kInt64).as_int64s();
  const int64_t axis =
      normalize_axis(c.attributes.integer("axis", -1), c.inputs[0].rank() + 1, "axis");
  Tensor& out = make_output_like(c, 0, c.inputs[2]);
  const AxisView view(out.shape(), axis);
  with_width(out.dtype(), [&]<typename T>() {
    const T off = data_of<T>(c.inputs[2])[0], on = data_of<T>(c.inputs[2])[1];
    T* y = data_of<T>(out);
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t grain = 1 + kElementwiseGrain / view.size;
    parallel(c.team, count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t hot = indices[i] < 0 ? indices[i] + view.size : indices[i];
        T* column = y + i / view.inner * view.size * view.inner + i % view.inner;
        for (int64_t at = 0; at < view.size; ++at) column[at * view.inner] = at == hot ? on : off;
      }
    });
  });
}

constexpr TypeSet kRangeTypes = kRealTypes | kIndexTypes | type_bit(DType::kInt16);
constexpr Port kRangeInputs[] = {{"start", kRangeTypes, Arity::kRequired, 'T'},
                                 {"limit", kRangeTypes, Arity::kRequired, 'T'},
                                 {"delta", kRangeTypes, Arity::kRequired, 'T'}};

constexpr Port kRangeOutputs[] = {{"output", kRangeTypes, Arity::kRequired, 'T'}};

void infer_range(Inference& c) {
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor* tensor = c.constant(i);
    if (tensor == nullptr) c.constant_integers(i, kRangeInputs[i].name);
    if (tensor->count() != 1) {
      throw_invalid("{}: expected one value, got shape {}", kRangeInputs[i].name,
                    shape_text(tensor->shape()));
    }
    numbers[i] = tensor->as_doubles()[0];
  }
  const double count = std::ceil((numbers[1] - numbers[0]) / numbers[2]);
  if (!(count <= static_cast<double>(kMaxElements))) {
    throw_invalid("delta: {} never leads from {} to {}", numbers[2], numbers[0], numbers[1]);
  }
  c.set_output(0, c.dtype(0), {std::max<int64_t>(static_cast<int64_t>(std::max(count, 0.0)), 0)});
}

void evaluate_range(Evaluation& c) {
  Tensor& out = make_output_like(c, 0, c.inputs[0]);
  with_type<kRangeTypes>(out.dtype(), [&]<typename T>() {
    const T start = *data_of<T>(c.inputs[0]), delta = *data_of<T>(c.inputs[2]);
    parallel(c.team, out.count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        data_of<T>(out)[i] =
            static_cast<T>(wrapping(start) + wrapping(static_cast<T>(i)) * wrapping(delta));
      }
    });
  });
}

constexpr Port kAnyInput[] = {{"data"}};
constexpr AttributeSpec kShapeAttributes[] = {{"end", AttributeKind::kInt},
                                              {"start", AttributeKind::kInt}};

// Both bounds count from the end when negative and are clamped to the rank.
std::span<const int64_t> shape_slice(const Attributes& attributes, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = place(attributes.integer("start", 0));
  const int64_t end = place(attributes.integer("end", rank));
  return std::span(shape).subspan(start, std::max<int64_t>(end - start, 0));
}

void infer_shape(Inference& c) {
  c.set_output(0, DType::kInt64,
               {static_cast<int64_t>(shape_slice(c.attributes(), c.shape(0)).size())});
}

void evaluate_shape(Evaluation& c) {
  c.outputs[0] = Tensor::int64s(shape_slice(c.attributes, c.inputs[0].shape()));
}

void infer_size(Inference& c) { c.set_output(0, DType::kInt64, {}); }

void evaluate_size(Evaluation& c) { c.outputs[0] = Tensor::scalar<int64_t>(c.inputs[0].count()); }

constexpr Operator row(std::string_view name, std::span<const Port> inputs,
                       std::span<const Port> outputs, std::span<const AttributeSpec> attributes,
                       void (*infer)(Inference&), void (*evaluate)(Evaluation&)) {
  return {.name = name,
          .inputs = inputs,
          .outputs = outputs,
          .attributes = attributes,
          .infer = infer,
          .evaluate = evaluate};
}

constexpr Operator kRows[] = {
    row("Constant", {}, kOutputs, kConstantAttributes, infer_constant, evaluate_constant),
    row("ConstantOfShape", kFillInputs, kOutputs, kFillAttributes, infer_fill, evaluate_fill),
    row("OneHot", kOneHotInputs, kOneHotOutputs, kOneHotAttributes, infer_one_hot,
        evaluate_one_hot),
    row("Range", kRangeInputs, kRangeOutputs, {}, infer_range, evaluate_range),
    row("Shape", kAnyInput, kIntOutputs, kShapeAttributes, infer_shape, evaluate_shape),
    row("Size", kAnyInput, kIntOutputs, {}, infer_size, evaluate_size),
};

}  // namespace

std::span<const Operator> generators() { return kRows; }

}  // namespace stretto::ir::ops
