// ScatterElements and ScatterND: a copy of the data with some elements written by index.
#include <cstring>
#include <functional>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/indexing.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"data", kAllTypes, Arity::kRequired, 'T'},
                            {"indices", kIndexTypes},
                            {"updates", kAllTypes, Arity::kRequired, 'T'}};
constexpr Port kNdInputs[] = {{"data", kAllTypes, Arity::kRequired, 'T'},
                              {"indices", type_bit(DType::kInt64)},
                              {"updates", kAllTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"output", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kElementsAttributes[] = {{"axis", AttributeKind::kInt},
                                                 {"reduction", AttributeKind::kString}};
constexpr AttributeSpec kNdAttributes[] = {{"reduction", AttributeKind::kString}};

constexpr int64_t kCopyGrain = 1 << 16;  // bytes

constexpr std::string_view kReductions[] = {"none", "add", "mul", "max", "min"};

void check_reduction(const Inference& c) {
  const std::string name = c.attributes().text("reduction", "none");
  if (std::find(std::begin(kReductions), std::end(kReductions), name) == std::end(kReductions)) {
    throw_invalid("reduction: expected none, add, mul, max or min, got {}", name);
  }
  if (name != "none" && (type_bit(c.dtype(0)) & kNumericTypes) == 0) {
    throw_unsupported("reduction: {} does not apply to {}", name, dtype_name(c.dtype(0)));
  }
}

template <typename T>
T combined(std::string_view reduction, T old, T update) {
  if (reduction == "add") return static_cast<T>(wrapping(old) + wrapping(update));
  if (reduction == "mul") return static_cast<T>(wrapping(old) * wrapping(update));
  if (reduction == "max") return old < update || update != update ? update : old;
  return update < old || update != update ? update : old;
}

// Writes runs of `run` neighbouring elements of the updates to `positions`, in order.
void scatter(Evaluation& c, const std::vector<int64_t>& positions, int64_t run) {
  const Tensor& data = c.inputs[0];
  const Tensor& updates = c.inputs[2];
  const std::string reduction = c.attributes.text("reduction", "none");
  Tensor& out = make_output_like(c, 0, data);
  parallel(c.team, static_cast<int64_t>(data.bytes()), kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(data_of<std::byte>(out) + begin, data_of<std::byte>(data) + begin,
                static_cast<size_t>(end - begin));
  });
  // On one thread, for a position may occur more than once and its updates apply in order.
  if (reduction == "none") {
    const size_t bytes = dtype_bytes(data.dtype());
    for (size_t i = 0; i < positions.size(); ++i) {
      std::memcpy(data_of<std::byte>(out) + static_cast<size_t>(positions[i]) * bytes,
                  data_of<std::byte>(updates) + i * static_cast<size_t>(run) * bytes,
                  static_cast<size_t>(run) * bytes);
    }
    return;
  }
  // 16-bit floats are rounded when all updates are in.
  const bool is_half = is_float(data.dtype()) && dtype_bytes(data.dtype()) == 2;
  if (is_half) out = data.converted(DType::kFloat32);
  const Tensor added = is_half ? updates.converted(DType::kFloat32) : updates;
  with_type<kRealOrInteger>(added.dtype(), [&]<typename T>() {
    T* to = data_of<T>(out);
    const T* from = data_of<T>(added);
    for (int64_t position : positions) {
      for (int64_t i = 0; i < run; ++i, ++from) {
        to[position + i] = combined(reduction, to[position + i], *from);
      }
    }
  });
  if (is_half) out = out.converted(data.dtype());
}

void infer_elements(Inference& c) {
  check_reduction(c);
  const int64_t axis = normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis");
  check_elements_shape(c.shape(0), c.shape(1), axis);
  if (c.shape(2) != c.shape(1)) {
    throw_invalid("updates: expected the indices' shape {}, got {}", shape_text(c.shape(1)),
                  shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

void evaluate_elements(Evaluation& c) {
  const Shape& data = c.inputs[0].shape();
  const int64_t axis = normalize_axis(c.attributes.integer("axis", 0), c.inputs[0].rank(), "axis");
  scatter(c, element_positions(data, c.inputs[1].shape(), c.inputs[1].as_int64s(), axis), 1);
}

void infer_nd(Inference& c) {
  check_reduction(c);
  const Shape& data = c.shape(0);
  const Shape& indices = c.shape(1);
  if (indices.empty() || indices.back() < 1 || indices.back() > c.rank(0)) {
    throw_invalid("indices: shape {} does not index data of shape {}", shape_text(indices),
                  shape_text(data));
  }
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + indices.back(), data.end());
  if (c.shape(2) != expected) {
    throw_invalid("updates: expected shape {}, got {}", shape_text(expected),
                  shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0), data);
}

void evaluate_nd(Evaluation& c) {
  const Shape& data = c.inputs[0].shape();
  const Shape& indices = c.inputs[1].shape();
  scatter(c, tuple_positions(data, indices, c.inputs[1].as_int64s(), 0),
          element_count(std::span(data).subspan(indices.back())));
}

}  // namespace

const Operator kScatterElements{.name = "ScatterElements",
                                .inputs = kInputs,
                                .outputs = kOutputs,
                                .attributes = kElementsAttributes,
                                .infer = infer_elements,
                                .evaluate = evaluate_elements};

const Operator kScatterND{.name = "ScatterND",
                          .inputs = kNdInputs,
                          .outputs = kOutputs,
                          .attributes = kNdAttributes,
                          .infer = infer_nd,
                          .evaluate = evaluate_nd};

}  // namespace stretto::ir::ops
