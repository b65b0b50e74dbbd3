// GlobalAveragePool and GlobalMaxPool: one value per channel of [n, c, ...].
#include <limits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};

void infer(Inference& c) {
  Shape shape = c.shape(0);
  if (shape.size() < 2) {
    throw_invalid("input: expected shape [batch, channels, ...], got {}", shape_text(shape));
  }
  std::fill(shape.begin() + 2, shape.end(), 1);
  c.set_output(0, c.dtype(0), std::move(shape));
}

template <auto kReduce>
void evaluate(Evaluation& c) {
  const int64_t planes = c.inputs[0].dim(0) * c.inputs[0].dim(1);
  const int64_t size = planes == 0 ? 0 : c.inputs[0].count() / planes;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    parallel(c.team, planes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        y[i] = static_cast<T>(kReduce(std::span(x + i * size, static_cast<size_t>(size))));
      }
    });
  });
}

constexpr auto kMean = [](auto values) {
  double sum = 0;
  for (auto value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
};

constexpr auto kMaximum = [](auto values) {
  double best = -std::numeric_limits<double>::infinity();
  for (double value : values) {
    if (value > best || value != value) best = value;
  }
  return best;
};

}  // namespace

const Operator kGlobalAveragePool{.name = "GlobalAveragePool",
                                  .inputs = kInputs,
                                  .outputs = kOutputs,
                                  .attributes = {},
                                  .infer = infer,
                                  .evaluate = evaluate<kMean>};

const Operator kGlobalMaxPool{.name = "GlobalMaxPool",
                              .inputs = kInputs,
                              .outputs = kOutputs,
                              .attributes = {},
                              .infer = infer,
                              .evaluate = evaluate<kMaximum>};

}  // namespace stretto::ir::ops
