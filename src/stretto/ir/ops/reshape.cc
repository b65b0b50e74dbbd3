// Operators that only rename the shape: Reshape, Flatten, Squeeze, Unsqueeze.
#include <algorithm>
#include <numeric>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kOutputs[] = {{"output", kStoredTypes, Arity::kRequired, 'T'}};

void evaluate(Evaluation& c) { c.outputs[0] = c.inputs[0].reshaped(c.output_shapes[0]); }

constexpr Port kReshapeInputs[] = {{"data", kStoredTypes, Arity::kRequired, 'T'},
                                   {"shape", kInt64}};
constexpr AttributeSpec kReshapeAttributes[] = {{"allowzero", AttributeKind::kInt}};

// 0 copies the input's dimension (unless allowzero), one -1 takes what is left over.
void infer_reshape(Inference& c) {
  const Shape& from = c.shape(0);
  const Shape wanted = c.constant_integers(1, "shape");
  const bool zero_is_zero = c.attributes().integer("allowzero", 0) != 0;
  Shape to = wanted;
  int64_t open = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == -1) {
      if (open >= 0) throw_invalid("shape: at most one -1, got {}", shape_text(wanted));
      open = static_cast<int64_t>(i);
      to[i] = 1;
    } else if (to[i] == 0 && !zero_is_zero) {
      if (i >= from.size()) {
        throw_invalid("shape: 0 at position {} copies a dimension that the input {} does not have",
                      i, shape_text(from));
      }
      to[i] = from[i];
    } else if (to[i] < 0) {
      throw_invalid("shape: dimension {} is negative", to[i]);
    }
  }
  const int64_t have = element_count(from), given = element_count(to);
  if (open >= 0) {
    if (given == 0 || have % given != 0) {
      throw_invalid("shape: {} elements of {} cannot fill {}", have, shape_text(from),
                    shape_text(wanted));
    }
    to[open] = have / given;
  } else if (given != have) {
    throw_invalid("shape: input {} has {} elements, {} has {}", shape_text(from), have,
                  shape_text(to), given);
  }
  c.set_output(0, c.dtype(0), std::move(to));
}

constexpr Port kFlattenInputs[] = {{"input", kStoredTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kFlattenAttributes[] = {{"axis", AttributeKind::kInt}};

void infer_flatten(Inference& c) {
  const Shape& shape = c.shape(0);
  const int64_t axis = c.attributes().integer("axis", 1), rank = c.rank(0);
  if (axis < -rank || axis > rank) {
    throw_invalid("axis: expected a value in [-{}, {}], got {}", rank, rank, axis);
  }
  const auto middle = shape.begin() + (axis < 0 ? axis + rank : axis);
  c.set_output(
      0, c.dtype(0),
      {element_count(Shape(shape.begin(), middle)), element_count(Shape(middle, shape.end()))});
}

constexpr Port kSqueezeInputs[] = {{"data", kStoredTypes, Arity::kRequired, 'T'},
                                   {"axes", kInt64, Arity::kOptional}};
constexpr Port kUnsqueezeInputs[] = {{"data", kStoredTypes, Arity::kRequired, 'T'},
                                     {"axes", kInt64}};

void infer_squeeze(Inference& c) {
  const Shape& from = c.shape(0);
  std::vector<bool> drop(from.size());
  if (c.has_input(1)) {
    for (int64_t axis : normalized_axes(c.constant_integers(1, "axes"), c.rank(0))) {
      if (from[axis] != 1) {
        throw_invalid("axes: dimension {} of {} is not 1", axis, shape_text(from));
      }
      drop[axis] = true;
    }
  } else {
    std::transform(from.begin(), from.end(), drop.begin(), [](int64_t dim) { return dim == 1; });
  }
  Shape to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!drop[i]) to.push_back(from[i]);
  }
  c.set_output(0, c.dtype(0), std::move(to));
}

void infer_unsqueeze(Inference& c) {
  const std::vector<int64_t> axes = c.constant_integers(1, "axes");
  const int64_t rank = c.rank(0) + static_cast<int64_t>(axes.size());
  Shape to(static_cast<size_t>(rank), -1);
  for (int64_t axis : normalized_axes(axes, rank)) to[axis] = 1;
  auto next = c.shape(0).begin();
  for (int64_t& dim : to) {
    if (dim < 0) dim = *next++;
  }
  c.set_output(0, c.dtype(0), std::move(to));
}

}  // namespace

const Operator kFlatten{.name = "Flatten",
                        .inputs = kFlattenInputs,
                        .outputs = kOutputs,
                        .attributes = kFlattenAttributes,
                        .infer = infer_flatten,
                        .evaluate = evaluate};

const Operator kReshape{.name = "Reshape",
                        .inputs = kReshapeInputs,
                        .outputs = kOutputs,
                        .attributes = kReshapeAttributes,
                        .infer = infer_reshape,
                        .evaluate = evaluate};

const Operator kSqueeze{.name = "Squeeze",
                        .inputs = kSqueezeInputs,
                        .outputs = kOutputs,
                        .attributes = {},
                        .infer = infer_squeeze,
                        .evaluate = evaluate};

const Operator kUnsqueeze{.name = "Unsqueeze",
                          .inputs = kUnsqueezeInputs,
                          .outputs = kOutputs,
                          .attributes = {},
                          .infer = infer_unsqueeze,
                          .evaluate = evaluate};

}  // namespace stretto::ir::ops
