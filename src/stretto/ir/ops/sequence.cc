// Operators on sequences along one axis: ReverseSequence, TensorScatter (a cache of keys or
// values).
#include <cstring>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kReverseInputs[] = {{"input", kAllTypes, Arity::kRequired, 'T'},
                                   {"sequence_lens", kInt64}};
constexpr Port kReverseOutputs[] = {{"Y", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kReverseAttributes[] = {{"batch_axis", AttributeKind::kInt},
                                                {"time_axis", AttributeKind::kInt}};

void infer_reverse(Inference& c) {
  const Shape& x = c.shape(0);
  const int64_t batch = c.attributes().integer("batch_axis", 1);
  const int64_t time = c.attributes().integer("time_axis", 0);
  if (x.size() < 2 || batch + time != 1 || batch * time != 0) {
    throw_invalid("batch_axis, time_axis: expected 0 and 1 of an input of rank 2 or more");
  }
  if (c.shape(1) != Shape{x[batch]}) {
    throw_invalid("sequence_lens: expected {} values, got shape {}", x[batch],
                  shape_text(c.shape(1)));
  }
  c.set_output(0, c.dtype(0), x);
}

void evaluate_reverse(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const bool batch_first = c.attributes.integer("batch_axis", 1) == 0;
  const std::vector<int64_t> lengths = c.inputs[1].as_int64s();
  const int64_t steps = x.dim(batch_first ? 1 : 0);
  for (int64_t length : lengths) {
    if (length < 0 || length > steps) {
      throw_invalid("sequence_lens: {} is outside [0, {}]", length, steps);
    }
  }
  Tensor& out = make_output_like(c, 0, x);
  const size_t run = x.count() == 0 ? 0 : x.bytes() / static_cast<size_t>(x.dim(0) * x.dim(1));
  for (int64_t row = 0; row < x.dim(0) * x.dim(1); ++row) {
    const int64_t i = row / x.dim(1), j = row % x.dim(1);
    const int64_t batch = batch_first ? i : j, time = batch_first ? j : i;
    const int64_t from = time < lengths[batch] ? lengths[batch] - 1 - time : time;
    const int64_t source = batch_first ? batch * x.dim(1) + from : from * x.dim(1) + batch;
    std::memcpy(data_of<std::byte>(out) + static_cast<size_t>(row) * run,
                data_of<std::byte>(x) + static_cast<size_t>(source) * run, run);
  }
}

constexpr Port kScatterInputs[] = {{"past_cache", kStoredTypes, Arity::kRequired, 'T'},
                                   {"update", kStoredTypes, Arity::kRequired, 'T'},
                                   {"write_indices", kInt64, Arity::kOptional}};
constexpr Port kScatterOutputs[] = {{"present_cache", kStoredTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kScatterAttributes[] = {{"axis", AttributeKind::kInt},
                                                {"mode", AttributeKind::kString}};

int64_t sequence_axis(const Attributes& attributes, int64_t rank) {
  const int64_t axis = normalize_axis(attributes.integer("axis", -2), rank, "axis");
  if (axis == 0) throw_invalid("axis: the first axis is that of the batch");
  return axis;
}

void infer_scatter(Inference& c) {
  const Shape& cache = c.shape(0);
  const int64_t axis = sequence_axis(c.attributes(), c.rank(0));
  Shape update = c.shape(1);
  const bool fits = update.size() == cache.size() && update[axis] <= cache[axis];
  if (fits) update[axis] = cache[axis];
  if (!fits || update != cache) {
    throw_invalid("update: shape {} does not fit a cache of shape {} along axis {}",
                  shape_text(c.shape(1)), shape_text(cache), axis);
  }
  const std::string mode = c.attributes().text("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    throw_invalid("mode: expected linear or circular, got {}", mode);
  }
  if (c.has_input(2) && c.shape(2) != Shape{cache[0]}) {
    throw_invalid("write_indices: expected {} values, got shape {}", cache[0],
                  shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0), cache);
}

void evaluate_scatter(Evaluation& c) {
  const Tensor &cache = c.inputs[0], &update = c.inputs[1];
  const AxisView view(cache.shape(), sequence_axis(c.attributes, cache.rank()));
  const int64_t length = update.count() == 0 ? 0 : update.count() / view.outer / view.inner;
  const bool circular = c.attributes.text("mode", "linear") == "circular";
  std::vector<int64_t> starts(static_cast<size_t>(cache.dim(0)), 0);
  if (c.has_input(2)) starts = c.inputs[2].as_int64s();
  for (int64_t start : starts) {
    if (start < 0 || (!circular && start + length > view.size)) {
      throw_invalid("write_indices: {} elements from {} on leave a cache of {}", length, start,
                    view.size);
    }
  }
  Tensor& out = make_output_like(c, 0, cache);
  auto* to = data_of<std::byte>(out);
  std::memcpy(to, cache.data(), cache.bytes());
  const size_t run = static_cast<size_t>(view.inner) * dtype_bytes(cache.dtype());
  for (int64_t row = 0; row < view.outer && length > 0; ++row) {
    const int64_t start = starts[row / (view.outer / cache.dim(0))];
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = row * view.size + (start + i) % view.size;
      std::memcpy(to + static_cast<size_t>(at) * run,
                  data_of<std::byte>(update) + static_cast<size_t>(row * length + i) * run, run);
    }
  }
}

}  // namespace

const Operator kReverseSequence{.name = "ReverseSequence",
                                .inputs = kReverseInputs,
                                .outputs = kReverseOutputs,
                                .attributes = kReverseAttributes,
                                .infer = infer_reverse,
                                .evaluate = evaluate_reverse};

const Operator kTensorScatter{.name = "TensorScatter",
                              .inputs = kScatterInputs,
                              .outputs = kScatterOutputs,
                              .attributes = kScatterAttributes,
                              .infer = infer_scatter,
                              .evaluate = evaluate_scatter};

}  // namespace stretto::ir::ops
