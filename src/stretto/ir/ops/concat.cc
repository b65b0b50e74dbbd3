// Concat, Split and stretto.Append along one axis.
#include <cstring>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kConcatInputs[] = {{"inputs", kAllTypes, Arity::kVariadic, 'T'}};
constexpr Port kConcatOutputs[] = {{"concat_result", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kConcatAttributes[] = {{"axis", AttributeKind::kInt, true}};
constexpr Port kAppendInputs[] = {{"memory", kAllTypes, Arity::kRequired, 'T'},
                                  {"new", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAppendAttributes[] = {{"axis", AttributeKind::kInt, true},
                                               {"length", AttributeKind::kInt, true}};
constexpr Port kSplitInputs[] = {{"input", kAllTypes, Arity::kRequired, 'T'},
                                 {"split", type_bit(DType::kInt64), Arity::kOptional}};
constexpr Port kSplitOutputs[] = {{"outputs", kAllTypes, Arity::kVariadic, 'T'}};
constexpr AttributeSpec kSplitAttributes[] = {{"axis", AttributeKind::kInt},
                                              {"num_outputs", AttributeKind::kInt}};

void infer_concat(Inference& c) {
  if (!c.has_input(0)) throw_invalid("expected at least one input, got none");
  Shape shape = c.shape(0);
  const int64_t axis = normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis");
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.has_input(i)) throw_invalid("input {} is missing", i);
    Shape other = c.shape(i);
    if (other.size() == shape.size()) other[axis] = shape[axis];
    if (other != shape) {
      throw_invalid("input {} has shape {}, which differs from {} of input 0 in more than axis {}",
                    i, shape_text(c.shape(i)), shape_text(c.shape(0)), axis);
    }
    shape[axis] += c.shape(i)[axis];
  }
  c.set_output(0, c.dtype(0), std::move(shape));
}

// Copies between the whole tensor and the part of it that begins at `first` along the axis.
void copy_part(const AxisView& whole, const AxisView& part, int64_t first, size_t element_bytes,
               std::byte* to, const std::byte* from, bool gather) {
  const auto run = static_cast<size_t>(part.size * part.inner) * element_bytes;
  const auto row = static_cast<size_t>(whole.size * whole.inner) * element_bytes;
  const auto begin = static_cast<size_t>(first * whole.inner) * element_bytes;
  if (run == 0) return;
  for (int64_t o = 0; o < whole.outer; ++o) {
    const size_t in_whole = static_cast<size_t>(o) * row + begin;
    const size_t in_part = static_cast<size_t>(o) * run;
    std::memcpy(to + (gather ? in_whole : in_part), from + (gather ? in_part : in_whole), run);
  }
}

void evaluate_concat(Evaluation& c) {
  Tensor& out = make_output_like(c, 0, c.inputs[0]);
  const int64_t axis = normalize_axis(c.attributes.integer("axis", 0), out.rank(), "axis");
  int64_t first = 0;
  for (const Tensor& input : c.inputs) {
    copy_part(AxisView(out.shape(), axis), AxisView(input.shape(), axis), first,
              dtype_bytes(out.dtype()), data_of<std::byte>(out), data_of<std::byte>(input), true);
    first += input.dim(axis);
  }
}

void infer_append(Inference& c) {
  Shape shape = c.shape(0);
  const int64_t axis = normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis");
  const int64_t length = c.attributes().integer("length", 0);
  Shape added = c.shape(1);
  if (added.size() == shape.size()) added[axis] = shape[axis];
  if (added != shape) {
    throw_invalid("new: shape {} differs from {} of the memory in more than axis {}",
                  shape_text(c.shape(1)), shape_text(shape), axis);
  }
  const int64_t count = c.shape(1)[axis];
  if (length < 0 || length > shape[axis] || count > shape[axis] - length) {
    throw_invalid("length: {} places and {} new ones do not fit the {} of the memory", length,
                  count, shape[axis]);
  }
  shape[axis] = length + count;
  c.set_output(0, c.dtype(0), std::move(shape));
}

void evaluate_append(Evaluation& c) {
  const Tensor &memory = c.inputs[0], &added = c.inputs[1];
  const int64_t axis = normalize_axis(c.attributes.integer("axis", 0), memory.rank(), "axis");
  const auto& shape = c.output_shapes[0];
  Tensor& out = c.outputs[0] = Tensor(memory.dtype(), shape);
  Shape before = shape;
  before[axis] = c.attributes.integer("length", 0);
  Tensor kept(memory.dtype(), before);
  const size_t bytes = dtype_bytes(memory.dtype());
  copy_part(AxisView(memory.shape(), axis), AxisView(before, axis), 0, bytes,
            data_of<std::byte>(kept), data_of<std::byte>(memory), false);
  copy_part(AxisView(shape, axis), AxisView(before, axis), 0, bytes, data_of<std::byte>(out),
            data_of<std::byte>(kept), true);
  copy_part(AxisView(shape, axis), AxisView(added.shape(), axis), before[axis], bytes,
            data_of<std::byte>(out), data_of<std::byte>(added), true);
}

// Sizes come from the input `split`, or are equal with a smaller last one.
void infer_split(Inference& c) {
  Shape shape = c.shape(0);
  const int64_t axis = normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis");
  const int64_t dim = shape[axis], parts = c.output_count();
  const int64_t declared = c.attributes().integer("num_outputs", parts);
  if (declared != parts) {
    throw_invalid("num_outputs: expected {}, the number of outputs, got {}", parts, declared);
  }
  std::vector<int64_t> sizes;
  if (c.has_input(1)) {
    sizes = c.constant_integers(1, "split");
  } else if (parts > 0) {
    const int64_t size = (dim + parts - 1) / parts;
    sizes.assign(static_cast<size_t>(parts), size);
    sizes.back() = dim - size * (parts - 1);
  }
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > dim) throw_invalid("split: a part of {} does not fit {}", size, dim);
    sum += size;
  }
  if (static_cast<int64_t>(sizes.size()) != parts || sum != dim) {
    throw_invalid("split: expected {} sizes that sum to {}, got {} that sum to {}", parts, dim,
                  sizes.size(), sum);
  }
  for (int i = 0; i < parts; ++i) {
    shape[axis] = sizes[i];
    c.set_output(i, c.dtype(0), shape);
  }
}

void evaluate_split(Evaluation& c) {
  const Tensor& input = c.inputs[0];
  const int64_t axis = normalize_axis(c.attributes.integer("axis", 0), input.rank(), "axis");
  const std::vector<int64_t> given =
      c.has_input(1) ? c.inputs[1].as_int64s() : std::vector<int64_t>();
  const auto parts = static_cast<int64_t>(c.outputs.size());
  int64_t first = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t equal = (input.dim(axis) + parts - 1) / parts;
    if (c.has_output(static_cast<int>(i))) {
      Tensor& out = make_output_like(c, static_cast<int>(i), input);
      copy_part(AxisView(input.shape(), axis), AxisView(out.shape(), axis), first,
                dtype_bytes(out.dtype()), data_of<std::byte>(out), data_of<std::byte>(input),
                false);
    }
    first += given.empty() ? equal : given[i];
  }
}

}  // namespace

const Operator kAppend{.name = "stretto.Append",
                       .inputs = kAppendInputs,
                       .outputs = kConcatOutputs,
                       .attributes = kAppendAttributes,
                       .infer = infer_append,
                       .evaluate = evaluate_append};

const Operator kConcat{.name = "Concat",
                       .inputs = kConcatInputs,
                       .outputs = kConcatOutputs,
                       .attributes = kConcatAttributes,
                       .infer = infer_concat,
                       .evaluate = evaluate_concat};

const Operator kSplit{.name = "Split",
                      .inputs = kSplitInputs,
                      .outputs = kSplitOutputs,
                      .attributes = kSplitAttributes,
                      .infer = infer_split,
                      .evaluate = evaluate_split};

}  // namespace stretto::ir::ops
