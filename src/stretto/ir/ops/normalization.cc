// Normalisation by the moments of the data itself: InstanceNormalization, GroupNormalization,
// LayerNormalization, RMSNormalization, stretto.AddLayerNorm. Moments are taken in double
// precision.
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/strided.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kRealOutput[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};

struct Moments {
  double mean = 0, inverse_deviation = 0;
};

// `center` false: the root of the mean square instead of the deviation.
template <typename T>
Moments moments_of(const T* x, int64_t size, double epsilon, bool center) {
  double mean = 0, square = 0;
  if (center) {
    for (int64_t i = 0; i < size; ++i) mean += static_cast<double>(x[i]);
    mean /= static_cast<double>(size);
  }
  for (int64_t i = 0; i < size; ++i) {
    const double distance = static_cast<double>(x[i]) - mean;
    square += distance * distance;
  }
  return {mean, 1 / std::sqrt(square / static_cast<double>(size) + epsilon)};
}

void check_channels(const Inference& c, int i, int64_t channels, std::string_view what) {
  if (c.shape(i) != Shape{channels}) {
    throw_invalid("{}: expected shape {}, one value per channel, got {}", what, channels,
                  shape_text(c.shape(i)));
  }
}

// Groups of whole channels of [n, c, ...] that share their moments: the rule of
// InstanceNormalization (as many groups as channels) and of GroupNormalization.
void normalize_groups(Evaluation& c, int64_t groups) {
  const double epsilon = c.attributes.number("epsilon", 1e-5f);
  const Shape& shape = c.inputs[0].shape();
  const int64_t channels = shape[1], size = element_count(std::span(shape).subspan(2));
  const int64_t per_group = groups == 0 ? 0 : channels / groups;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    const T* scale = data_of<T>(c.inputs[1]);
    const T* bias = data_of<T>(c.inputs[2]);
    T* y = data_of<T>(c.make_output(0));
    parallel(c.team, shape[0] * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        const int64_t first = group * per_group * size;
        const Moments m = moments_of(x + first, per_group * size, epsilon, true);
        for (int64_t i = 0; i < per_group * size; ++i) {
          const int64_t channel = group % groups * per_group + i / size;
          y[first + i] =
              static_cast<T>((static_cast<double>(x[first + i]) - m.mean) * m.inverse_deviation *
                                 static_cast<double>(scale[channel]) +
                             static_cast<double>(bias[channel]));
        }
      }
    });
  });
}

constexpr Port kChannelInputs[] = {{"input", kRealTypes, Arity::kRequired, 'T'},
                                   {"scale", kRealTypes, Arity::kRequired, 'T'},
                                   {"B", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kInstanceAttributes[] = {{"epsilon", AttributeKind::kFloat}};
constexpr AttributeSpec kGroupAttributes[] = {{"epsilon", AttributeKind::kFloat},
                                              {"num_groups", AttributeKind::kInt, true},
                                              {"stash_type", AttributeKind::kInt}};

void infer_channels(Inference& c) {
  if (c.rank(0) < 2) {
    throw_invalid("input: expected shape [batch, channels, ...], got {}", shape_text(c.shape(0)));
  }
  check_channels(c, 1, c.shape(0)[1], "scale");
  check_channels(c, 2, c.shape(0)[1], "B");
  c.set_output(0, c.dtype(0), c.shape(0));
}

void infer_group(Inference& c) {
  infer_channels(c);
  const int64_t groups = c.attributes().integer("num_groups", 0);
  if (groups < 1 || c.shape(0)[1] % groups != 0) {
    throw_invalid("num_groups: {} channels cannot be divided into {} groups", c.shape(0)[1],
                  groups);
  }
}

void evaluate_instance(Evaluation& c) { normalize_groups(c, c.inputs[0].dim(1)); }
void evaluate_group(Evaluation& c) { normalize_groups(c, c.attributes.integer("num_groups", 1)); }

constexpr Port kLayerInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                                 {"Scale", kRealTypes, Arity::kRequired, 'T'},
                                 {"B", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kRmsInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                               {"scale", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kLayerOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'},
                                  {"Mean", kRealTypes, Arity::kOptional},
                                  {"InvStdDev", kRealTypes, Arity::kOptional}};
constexpr AttributeSpec kLayerAttributes[] = {{"axis", AttributeKind::kInt},
                                              {"epsilon", AttributeKind::kFloat},
                                              {"stash_type", AttributeKind::kInt}};

int64_t layer_axis(const Attributes& attributes, int64_t rank) {
  return normalize_axis(attributes.integer("axis", -1), rank, "axis");
}

void check_layer_parameters(const Inference& c, const Shape& normalized, int first) {
  for (int i = first; i < first + 2; ++i) {
    if (!c.has_input(i) || broadcasts_to(c.shape(i), normalized)) continue;
    throw_invalid("{}: expected a shape that broadcasts to {}, got {}",
                  i == first ? "scale" : "bias", shape_text(normalized), shape_text(c.shape(i)));
  }
}

void infer_layer(Inference& c) {
  Shape moments = c.shape(0);
  const int64_t axis = layer_axis(c.attributes(), c.rank(0));
  check_layer_parameters(c, Shape(moments.begin() + axis, moments.end()), 1);
  std::fill(moments.begin() + axis, moments.end(), 1);
  c.set_output(0, c.dtype(0), c.shape(0));
  c.set_output(1, c.dtype(0), moments);
  c.set_output(2, c.dtype(0), moments);
}

// A parameter broadcast to `shape`, or `fallback` everywhere.
template <typename T>
std::vector<double> parameter(const Evaluation& c, int i, const Shape& shape, double fallback) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)), fallback);
  if (!c.has_input(i)) return values;
  const StridedLoop loop(shape, {broadcast_strides(c.inputs[i].shape(), shape)});
  loop.rows(0, loop.count(),
            [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
              for (int64_t j = 0; j < length; ++j) {
                values[at + j] =
                    static_cast<double>(data_of<T>(c.inputs[i])[offsets[0] + j * steps[0]]);
              }
            });
  return values;
}

// y = (x - mean) * inverse deviation * scale + bias over all axes from `axis` on; scale is input
// `first`, bias the one after it.
template <typename T>
void normalize_layers(Evaluation& c, const Tensor& data, int64_t axis, int first, bool center,
                      Tensor* means, Tensor* deviations) {
  const double epsilon = c.attributes.number("epsilon", 1e-5f);
  const Shape normalized(data.shape().begin() + axis, data.shape().end());
  const std::vector<double> scale = parameter<T>(c, first, normalized, 1);
  const std::vector<double> bias = parameter<T>(c, first + 1, normalized, 0);
  const auto size = static_cast<int64_t>(scale.size());
  const int64_t rows = element_count(std::span(data.shape()).first(axis));
  const T* x = data_of<T>(data);
  T* y = data_of<T>(c.make_output(0));
  parallel(c.team, rows, 1 + 4096 / (size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x + row * size;
      const Moments m = moments_of(from, size, epsilon, center);
      for (int64_t i = 0; i < size; ++i) {
        const double z = (static_cast<double>(from[i]) - m.mean) * m.inverse_deviation;
        y[row * size + i] = static_cast<T>(z * scale[i] + bias[i]);
      }
      if (means != nullptr) data_of<T>(*means)[row] = static_cast<T>(m.mean);
      if (deviations != nullptr) {
        data_of<T>(*deviations)[row] = static_cast<T>(m.inverse_deviation);
      }
    }
  });
}

template <bool kCenter>
void evaluate_layer(Evaluation& c) {
  const Tensor data = c.inputs[0];
  with_type<kRealTypes>(data.dtype(), [&]<typename T>() {
    normalize_layers<T>(c, data, layer_axis(c.attributes, data.rank()), 1, kCenter,
                        c.has_output(1) ? &c.make_output(1) : nullptr,
                        c.has_output(2) ? &c.make_output(2) : nullptr);
  });
}

constexpr Port kAddInputs[] = {{"x", kRealTypes, Arity::kRequired, 'T'},
                               {"residual", kRealTypes, Arity::kRequired, 'T'},
                               {"scale", kRealTypes, Arity::kRequired, 'T'},
                               {"bias", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kAddOutputs[] = {{"y", kRealTypes, Arity::kRequired, 'T'},
                                {"sum", kRealTypes, Arity::kOptional, 'T'}};
constexpr AttributeSpec kAddAttributes[] = {{"epsilon", AttributeKind::kFloat}};

void infer_add(Inference& c) {
  const Shape& shape = c.shape(0);
  if (shape.empty() || c.shape(1) != shape) {
    throw_invalid("residual: expected the shape of x, {}, got {}", shape_text(shape),
                  shape_text(c.shape(1)));
  }
  check_layer_parameters(c, {shape.back()}, 2);
  c.set_output(0, c.dtype(0), shape);
  c.set_output(1, c.dtype(0), shape);
}

void evaluate_add(Evaluation& c) {
  Tensor sum(c.inputs[0].dtype(), c.inputs[0].shape());
  with_type<kRealTypes>(sum.dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    const T* residual = data_of<T>(c.inputs[1]);
    for (int64_t i = 0; i < sum.count(); ++i) data_of<T>(sum)[i] = x[i] + residual[i];
    normalize_layers<T>(c, sum, sum.rank() - 1, 2, true, nullptr, nullptr);
  });
  if (c.has_output(1)) c.outputs[1] = std::move(sum);
}

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
    row("GroupNormalization", kChannelInputs, kRealOutput, kGroupAttributes, infer_group,
        evaluate_group),
    row("InstanceNormalization", kChannelInputs, kRealOutput, kInstanceAttributes, infer_channels,
        evaluate_instance),
    row("LayerNormalization", kLayerInputs, kLayerOutputs, kLayerAttributes, infer_layer,
        evaluate_layer<true>),
    row("RMSNormalization", kRmsInputs, kRealOutput, kLayerAttributes, infer_layer,
        evaluate_layer<false>),
    row("stretto.AddLayerNorm", kAddInputs, kAddOutputs, kAddAttributes, infer_add, evaluate_add),
};

}  // namespace

std::span<const Operator> normalizations() { return kRows; }

}  // namespace stretto::ir::ops
