// Compress, Gather, GatherElements, GatherND: reading by index or by a list of bools. Negative
// indices count from the end.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/indexing.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"data", kAllTypes, Arity::kRequired, 'T'}, {"indices", kIndexTypes}};
constexpr Port kNdInputs[] = {{"data", kAllTypes, Arity::kRequired, 'T'},
                              {"indices", type_bit(DType::kInt64)}};
constexpr Port kOutputs[] = {{"output", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAxis[] = {{"axis", AttributeKind::kInt}};
constexpr AttributeSpec kNdAttributes[] = {{"batch_dims", AttributeKind::kInt}};

// Copies of `run` bytes that are worth a thread.
int64_t grain_of(size_t run) { return 1 + 4 * kElementwiseGrain / static_cast<int64_t>(run); }

int64_t axis_of(const Attributes& attributes, int64_t rank) {
  return normalize_axis(attributes.integer("axis", 0), rank, "axis");
}

void infer_gather(Inference& c) {
  const Shape& data = c.shape(0);
  const Shape& indices = c.shape(1);
  const int64_t axis = axis_of(c.attributes(), c.rank(0));
  Shape shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  c.set_output(0, c.dtype(0), std::move(shape));
}

void evaluate_gather(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const AxisView view(data.shape(), axis_of(c.attributes, data.rank()));
  const std::vector<int64_t> indices = normalized_indices(c.inputs[1].as_int64s(), view.size);
  const size_t run = static_cast<size_t>(view.inner) * dtype_bytes(data.dtype());
  const std::byte* from = data_of<std::byte>(data);
  std::byte* to = data_of<std::byte>(make_output_like(c, 0, data));
  if (run == 0) return;
  const auto count = static_cast<int64_t>(indices.size());
  parallel(c.team, view.outer * count, grain_of(run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / count * view.size + indices[static_cast<size_t>(i % count)];
      std::memcpy(to + static_cast<size_t>(i) * run, from + static_cast<size_t>(row) * run, run);
    }
  });
}

void infer_elements(Inference& c) {
  const int64_t axis = axis_of(c.attributes(), c.rank(0));
  check_elements_shape(c.shape(0), c.shape(1), axis);
  c.set_output(0, c.dtype(0), c.shape(1));
}

// Copies the elements [begin, end) of all rows. False, with elements left out, where an index is
// none.
template <typename T, typename Index>
bool copy_elements(const ElementRows& rows, const T* from, const Index* indices, T* to,
                   int64_t begin, int64_t end) {
  uint64_t outside = 0;
  const auto size = static_cast<uint64_t>(rows.size);
  for (int64_t row = begin / rows.length; row * rows.length < end; ++row) {
    const int64_t at = row * rows.length;
    const T* const base = from + rows.base(row);
    const Index* const index = indices + at;
    T* const out = to + at;
    const int64_t stop = std::min(rows.length, end - at);
    for (int64_t i = std::max<int64_t>(begin - at, 0); i < stop; ++i) {
      const auto given = static_cast<int64_t>(index[i]);
      auto place = static_cast<uint64_t>(given < 0 ? given + rows.size : given);
      outside |= place >= size ? 1 : 0;
      place = place < size ? place : 0;
      out[i] = base[i * rows.step + static_cast<int64_t>(place) * rows.stride];
    }
  }
  return outside == 0;
}

void evaluate_elements(Evaluation& c) {
  const Tensor &data = c.inputs[0], &indices = c.inputs[1];
  const ElementRows rows(data.shape(), indices.shape(), axis_of(c.attributes, data.rank()));
  Tensor& out = make_output_like(c, 0, data);
  if (out.count() == 0) return;
  std::atomic<bool> fits = rows.size > 0;
  with_width(data.dtype(), [&]<typename T>() {
    const auto copy = [&](const auto* index) {
      parallel(c.team, fits ? out.count() : 0, kElementwiseGrain, [&](int64_t begin, int64_t end) {
        if (!copy_elements(rows, data_of<T>(data), index, data_of<T>(out), begin, end))
          fits = false;
      });
    };
    indices.dtype() == DType::kInt32 ? copy(data_of<int32_t>(indices))
                                     : copy(data_of<int64_t>(indices));
  });
  if (!fits) normalized_indices(indices.as_int64s(), rows.size);  // says which
}

void infer_nd(Inference& c) {
  const Shape& data = c.shape(0);
  const Shape& indices = c.shape(1);
  const int64_t batch = c.attributes().integer("batch_dims", 0);
  if (indices.empty() || batch < 0 || batch >= c.rank(1) || batch >= c.rank(0) ||
      !std::equal(data.begin(), data.begin() + batch, indices.begin())) {
    throw_invalid("batch_dims: data {} and indices {} do not share {} leading dimensions",
                  shape_text(data), shape_text(indices), batch);
  }
  if (indices.back() < 1 || batch + indices.back() > c.rank(0)) {
    throw_invalid("indices: tuples of {} cannot index data of shape {}", indices.back(),
                  shape_text(data));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch + indices.back(), data.end());
  c.set_output(0, c.dtype(0), std::move(shape));
}

void evaluate_nd(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const int64_t batch = c.attributes.integer("batch_dims", 0);
  const std::vector<int64_t> from =
      tuple_positions(data.shape(), c.inputs[1].shape(), c.inputs[1].values<int64_t>(), batch);
  const int64_t last = batch + c.inputs[1].shape().back();
  const auto run = static_cast<size_t>(element_count(std::span(data.shape()).subspan(last))) *
                   dtype_bytes(data.dtype());
  std::byte* to = data_of<std::byte>(make_output_like(c, 0, data));
  const size_t element = dtype_bytes(data.dtype());
  if (run == 0) return;
  const auto count = static_cast<int64_t>(from.size());
  parallel(c.team, count, grain_of(run), [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::memcpy(to + i * run, data_of<std::byte>(data) + static_cast<size_t>(from[i]) * element,
                  run);
    }
  });
}

constexpr Port kCompressInputs[] = {{"input", kAllTypes, Arity::kRequired, 'T'},
                                    {"condition", kBoolType}};

// The input as rows along the axis; without one it is flat.
AxisView compressed_view(const Attributes& attributes, const Shape& shape) {
  if (!attributes.has("axis")) return AxisView(Shape{element_count(shape)}, 0);
  return AxisView(shape, axis_of(attributes, static_cast<int64_t>(shape.size())));
}

// A condition that is shorter than the axis drops the rest.
std::vector<int64_t> chosen(const std::vector<int64_t>& condition, int64_t size) {
  if (static_cast<int64_t>(condition.size()) > size) {
    throw_invalid("condition: {} values for {} elements", condition.size(), size);
  }
  std::vector<int64_t> places;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  return places;
}

void infer_compress(Inference& c) {
  if (c.shape(1).size() != 1) {
    throw_invalid("condition: expected a list, got shape {}", shape_text(c.shape(1)));
  }
  const AxisView view = compressed_view(c.attributes(), c.shape(0));
  const auto count =
      static_cast<int64_t>(chosen(c.constant_integers(1, "condition"), view.size).size());
  Shape shape{count};
  if (c.attributes().has("axis")) {
    shape = c.shape(0);
    shape[axis_of(c.attributes(), c.rank(0))] = count;
  }
  c.set_output(0, c.dtype(0), std::move(shape));
}

void evaluate_compress(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const AxisView view = compressed_view(c.attributes, data.shape());
  const std::vector<int64_t> places = chosen(c.inputs[1].as_int64s(), view.size);
  Tensor& out = make_output_like(c, 0, data);
  const size_t run = static_cast<size_t>(view.inner) * dtype_bytes(data.dtype());
  auto* to = data_of<std::byte>(out);
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t place : places) {
      std::memcpy(
          to, data_of<std::byte>(data) + static_cast<size_t>(outer * view.size + place) * run, run);
      to += run;
    }
  }
}

}  // namespace

const Operator kCompress{.name = "Compress",
                         .inputs = kCompressInputs,
                         .outputs = kOutputs,
                         .attributes = kAxis,
                         .infer = infer_compress,
                         .evaluate = evaluate_compress};

const Operator kGather{.name = "Gather",
                       .inputs = kInputs,
                       .outputs = kOutputs,
                       .attributes = kAxis,
                       .infer = infer_gather,
                       .evaluate = evaluate_gather};

const Operator kGatherElements{.name = "GatherElements",
                               .inputs = kInputs,
                               .outputs = kOutputs,
                               .attributes = kAxis,
                               .infer = infer_elements,
                               .evaluate = evaluate_elements};

const Operator kGatherND{.name = "GatherND",
                         .inputs = kNdInputs,
                         .outputs = kOutputs,
                         .attributes = kNdAttributes,
                         .infer = infer_nd,
                         .evaluate = evaluate_nd};

}  // namespace stretto::ir::ops
