// Pad: constant, reflect, edge or wrap; negative pads cut off.
#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"data", kStoredTypes, Arity::kRequired, 'T'},
                            {"pads", type_bit(DType::kInt64)},
                            {"constant_value", kStoredTypes, Arity::kOptional, 'T'},
                            {"axes", kIndexTypes, Arity::kOptional}};
constexpr Port kOutputs[] = {{"output", kStoredTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"mode", AttributeKind::kString}};

// Begin and end for every axis of the data.
struct Pads {
  std::vector<int64_t> begin, end;
};

Pads pads_of(const std::vector<int64_t>& values, const std::vector<int64_t>* axes, int64_t rank) {
  Pads pads{std::vector<int64_t>(static_cast<size_t>(rank)),
            std::vector<int64_t>(static_cast<size_t>(rank))};
  std::vector<int64_t> all;
  for (int64_t i = 0; i < rank; ++i) all.push_back(i);
  const std::vector<int64_t> chosen = axes == nullptr ? all : normalized_axes(*axes, rank);
  if (values.size() != 2 * chosen.size()) {
    throw_invalid("pads: expected {} values, begin and end of {} axes, got {}", 2 * chosen.size(),
                  chosen.size(), values.size());
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    pads.begin[chosen[i]] = values[i];
    pads.end[chosen[i]] = values[i + chosen.size()];
  }
  return pads;
}

void infer(Inference& c) {
  const std::string mode = c.attributes().text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    throw_invalid("mode: expected constant, reflect, edge or wrap, got {}", mode);
  }
  if (c.has_input(2) && element_count(c.shape(2)) != 1) {
    throw_invalid("constant_value: expected one value, got shape {}", shape_text(c.shape(2)));
  }
  std::vector<int64_t> axes;
  if (c.has_input(3)) axes = c.constant_integers(3, "axes");
  const Pads pads =
      pads_of(c.constant_integers(1, "pads"), c.has_input(3) ? &axes : nullptr, c.rank(0));
  Shape shape = c.shape(0);
  for (size_t i = 0; i < shape.size(); ++i) {
    for (int64_t pad : {pads.begin[i], pads.end[i]}) {
      if (pad > kMaxElements || pad < -kMaxElements) throw_invalid("pads: {} is too large", pad);
    }
    const int64_t size = shape[i] + pads.begin[i] + pads.end[i];
    if (size < 0) {
      throw_invalid("pads: {} and {} cut more than the {} elements of axis {}", pads.begin[i],
                    pads.end[i], shape[i], i);
    }
    if (mode != "constant" && shape[i] == 0 && size > 0) {
      throw_invalid("mode: {} needs elements to copy, axis {} is empty", mode, i);
    }
    shape[i] = size;
  }
  c.set_output(0, c.dtype(0), std::move(shape));
}

// The input coordinate that position `at` shows, -1 for the constant.
int64_t source(std::string_view mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "constant") return -1;
  if (mode == "edge") return at < 0 ? 0 : size - 1;
  if (mode == "wrap") return (at % size + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), phase = (at % period + period) % period;
  return phase < size ? phase : period - phase;
}

void evaluate(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const std::string mode = c.attributes.text("mode", "constant");
  std::vector<int64_t> axes;
  if (c.has_input(3)) axes = c.inputs[3].as_int64s();
  const Pads pads = pads_of(c.inputs[1].as_int64s(), c.has_input(3) ? &axes : nullptr, data.rank());
  const Shape& to = c.output_shapes[0];
  const std::vector<int64_t> strides = row_major_strides(data.shape());
  // By axis and output coordinate: the offset into the data, -1 for the constant.
  std::vector<std::vector<int64_t>> offsets(to.size());
  for (size_t axis = 0; axis < to.size(); ++axis) {
    for (int64_t o = 0; o < to[axis]; ++o) {
      const int64_t from = source(mode, o - pads.begin[axis], data.shape()[axis]);
      offsets[axis].push_back(from < 0 ? -1 : from * strides[axis]);
    }
  }
  Tensor& out = make_output_like(c, 0, data);
  with_width(data.dtype(), [&]<typename T>() {
    const T fill = c.has_input(2) ? *data_of<T>(c.inputs[2]) : T{};
    const T* x = data_of<T>(data);
    T* y = data_of<T>(out);
    std::vector<int64_t> index(to.size(), 0);
    for (int64_t i = 0; i < out.count(); ++i) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < to.size() && offset >= 0; ++axis) {
        const int64_t part = offsets[axis][index[axis]];
        offset = part < 0 ? -1 : offset + part;
      }
      y[i] = offset < 0 ? fill : x[offset];
      for (size_t axis = to.size(); axis-- > 0 && ++index[axis] == to[axis];) index[axis] = 0;
    }
  });
}

}  // namespace

const Operator kPad{.name = "Pad",
                    .inputs = kInputs,
                    .outputs = kOutputs,
                    .attributes = kAttributes,
                    .infer = infer,
                    .evaluate = evaluate};

}  // namespace stretto::ir::ops
