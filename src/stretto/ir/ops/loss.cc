// NegativeLogLikelihoodLoss: minus the score of each target's class, weighted, then joined.
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"input", kRealTypes, Arity::kRequired, 'T'},
                            {"target", kIndexTypes},
                            {"weight", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"loss", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"ignore_index", AttributeKind::kInt},
                                         {"reduction", AttributeKind::kString}};

enum class Reduction { kNone, kSum, kMean };

Reduction reduction_of(const Attributes& attributes) {
  const std::string text = attributes.text("reduction", "mean");
  if (text == "none") return Reduction::kNone;
  if (text == "sum") return Reduction::kSum;
  if (text != "mean") throw_invalid("reduction: expected none, sum or mean, got {}", text);
  return Reduction::kMean;
}

void infer(Inference& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2) {
    throw_invalid("input: expected shape [batch, classes, ...], got {}", shape_text(x));
  }
  Shape expected = x;
  expected.erase(expected.begin() + 1);
  if (c.shape(1) != expected) {
    throw_invalid("target: expected shape {}, got {}", shape_text(expected),
                  shape_text(c.shape(1)));
  }
  if (c.has_input(2) && c.shape(2) != Shape{x[1]}) {
    throw_invalid("weight: expected one per class, {}, got shape {}", x[1], shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0),
               reduction_of(c.attributes()) == Reduction::kNone ? expected : Shape{});
}

void evaluate(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const std::vector<int64_t> targets = c.inputs[1].as_int64s();
  const bool ignores = c.attributes.has("ignore_index");
  const int64_t ignored = c.attributes.integer("ignore_index", 0);
  const Reduction reduction = reduction_of(c.attributes);
  const int64_t classes = x.dim(1);
  const int64_t inner = element_count(std::span(x.shape()).subspan(2));
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    const T* scores = data_of<T>(x);
    const T* weights = c.has_input(2) ? data_of<T>(c.inputs[2]) : nullptr;
    T* y = data_of<T>(c.make_output(0));
    double sum = 0, total = 0;
    for (size_t i = 0; i < targets.size(); ++i) {
      const int64_t target = targets[i];
      double loss = 0;
      if (!ignores || target != ignored) {
        if (target < 0 || target >= classes) {
          throw_invalid("target: {} is outside [0, {})", target, classes);
        }
        const auto at = static_cast<int64_t>(i);
        const double weight = weights == nullptr ? 1 : static_cast<double>(weights[target]);
        loss = -weight *
               static_cast<double>(scores[(at / inner * classes + target) * inner + at % inner]);
        total += weight;
      }
      sum += loss;
      if (reduction == Reduction::kNone) y[i] = static_cast<T>(loss);
    }
    if (reduction == Reduction::kSum) y[0] = static_cast<T>(sum);
    if (reduction == Reduction::kMean) y[0] = static_cast<T>(sum / total);
  });
}

}  // namespace

const Operator kNegativeLogLikelihoodLoss{.name = "NegativeLogLikelihoodLoss",
                                          .inputs = kInputs,
                                          .outputs = kOutputs,
                                          .attributes = kAttributes,
                                          .infer = infer,
                                          .evaluate = evaluate};

}  // namespace stretto::ir::ops
