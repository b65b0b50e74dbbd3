// LRN: x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta.
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"alpha", AttributeKind::kFloat},
                                         {"beta", AttributeKind::kFloat},
                                         {"bias", AttributeKind::kFloat},
                                         {"size", AttributeKind::kInt, true}};

void infer(Inference& c) {
  if (c.rank(0) < 2) {
    throw_invalid("X: expected shape [batch, channels, ...], got {}", shape_text(c.shape(0)));
  }
  if (c.attributes().integer("size", 0) < 1) {
    throw_invalid("size: expected a positive number, got {}", c.attributes().integer("size", 0));
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

void evaluate(Evaluation& c) {
  const double alpha = c.attributes.number("alpha", 1e-4f),
               beta = c.attributes.number("beta", 0.75);
  const double bias = c.attributes.number("bias", 1);
  const int64_t size = c.attributes.integer("size", 1);
  const Shape& shape = c.inputs[0].shape();
  const int64_t channels = shape[1], inner = element_count(std::span(shape).subspan(2));
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    parallel(c.team, shape[0] * channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t image = plane / channels * channels, channel = plane % channels;
        // An even window has its extra neighbour above.
        const int64_t first = std::max<int64_t>(channel - (size - 1) / 2, 0);
        const int64_t last = std::min(channel + size / 2, channels - 1);
        for (int64_t i = 0; i < inner; ++i) {
          double square = 0;
          for (int64_t j = first; j <= last; ++j) {
            const auto neighbour = static_cast<double>(x[(image + j) * inner + i]);
            square += neighbour * neighbour;
          }
          const double base = bias + alpha / static_cast<double>(size) * square;
          y[plane * inner + i] =
              static_cast<T>(static_cast<double>(x[plane * inner + i]) / std::pow(base, beta));
        }
      }
    });
  });
}

double flops(const Graph& graph, const Node& node) {
  const Shape& shape = *graph.value(node.inputs[0]).shape;
  const int64_t neighbours = std::min(node.attributes.integer("size", 1), shape[1]);
  return 2.0 * static_cast<double>(element_count(shape)) * static_cast<double>(neighbours);
}

}  // namespace

const Operator kLRN{.name = "LRN",
                    .inputs = kInputs,
                    .outputs = kOutputs,
                    .attributes = kAttributes,
                    .infer = infer,
                    .evaluate = evaluate,
                    .flops = flops};

}  // namespace stretto::ir::ops
