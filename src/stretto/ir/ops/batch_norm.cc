// BatchNormalization in inference form: y = (x - mean) / sqrt(var + epsilon) * scale + B.
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                            {"scale", kRealTypes, Arity::kRequired, 'T'},
                            {"B", kRealTypes, Arity::kRequired, 'T'},
                            {"input_mean", kRealTypes, Arity::kRequired, 'T'},
                            {"input_var", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"epsilon", AttributeKind::kFloat},
                                         {"momentum", AttributeKind::kFloat},
                                         {"training_mode", AttributeKind::kInt}};

int64_t channels_of(const Shape& x) { return x.size() == 1 ? 1 : x[1]; }

void infer(Inference& c) {
  if (c.attributes().integer("training_mode", 0) != 0) {
    throw_unsupported("training_mode: expected 0, inference, got 1");
  }
  if (c.rank(0) < 1) throw_invalid("X: expected shape [batch, channels, ...], got a scalar");
  const int64_t channels = channels_of(c.shape(0));
  for (int i = 1; i < 5; ++i) {
    if (c.shape(i) != Shape{channels}) {
      throw_invalid("{}: expected shape {}, one value per channel, got {}", kInputs[i].name,
                    channels, shape_text(c.shape(i)));
    }
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

void evaluate(Evaluation& c) {
  const double epsilon = c.attributes.number("epsilon", 1e-5f);
  const Shape& shape = c.inputs[0].shape();
  const int64_t channels = channels_of(shape);
  const int64_t rows = shape[0] * channels;
  const int64_t inner = rows == 0 ? 0 : c.inputs[0].count() / rows;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    const T* parameters[4];
    for (int i = 0; i < 4; ++i) parameters[i] = data_of<T>(c.inputs[i + 1]);
    T* y = data_of<T>(c.make_output(0));
    parallel(c.team, rows, 1 + 4096 / (inner + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t channel = row % channels;
        const double scale = static_cast<double>(parameters[0][channel]) /
                             std::sqrt(static_cast<double>(parameters[3][channel]) + epsilon);
        const double mean = static_cast<double>(parameters[2][channel]);
        const double shift = static_cast<double>(parameters[1][channel]);
        for (int64_t i = row * inner; i < (row + 1) * inner; ++i) {
          y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * scale + shift);
        }
      }
    });
  });
}

}  // namespace

const Operator kBatchNormalization{.name = "BatchNormalization",
                                   .inputs = kInputs,
                                   .outputs = kOutputs,
                                   .attributes = kAttributes,
                                   .infer = infer,
                                   .evaluate = evaluate};

}  // namespace stretto::ir::ops
