// One step of an optimiser, for each of any number of tensors: inputs are the learning rate, the
// step's number, then all tensors, all gradients, and all of each kind of state.
#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

struct Step {
  PendingNode& node;
  Parts parts;
  size_t kinds;  // tensor, gradient, states
  size_t count = 0;

  Step(PendingNode& pending, size_t kinds_) : node(pending), parts(pending), kinds(kinds_) {
    if (node.inputs.size() < 2 + kinds || (node.inputs.size() - 2) % kinds != 0) {
      throw_invalid("{} \"{}\": expected 2 + {} n inputs, got {}", node.op, node.name, kinds,
                    node.inputs.size());
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.has_input(i)) {
        throw_invalid("{} \"{}\": input {} is missing", node.op, node.name, i);
      }
    }
    count = (node.inputs.size() - 2) / kinds;
  }

  double number(std::string_view name, double fallback) const {
    return node.attributes.number(name, fallback);
  }
  Id input(size_t kind, size_t i) const { return node.inputs[2 + kind * count + i]; }
  Id rate(Id like) { return parts.cast(node.inputs[0], parts.dtype(like)); }
  Id time(Id like) { return parts.cast(node.inputs[1], parts.dtype(like)); }
  Id times(double factor, Id x) {
    return factor == 1 ? x : parts.multiply(parts.number(factor, x), x);
  }
  // The gradient with that of the norm.
  Id gradient(size_t i, double norm) {
    const Id g = input(1, i);
    return norm == 0 ? g : parts.add(times(norm, input(0, i)), g);
  }
  // Outputs of all tensors by kind.
  void finish(const std::vector<std::vector<Id>>& outputs) {
    for (const std::vector<Id>& kind : outputs) {
      node.results.insert(node.results.end(), kind.begin(), kind.end());
    }
  }
};

}  // namespace

void compose_adagrad(PendingNode& node) {
  Step step(node, 3);
  Parts& p = step.parts;
  const double decay = step.number("decay_factor", 0), epsilon = step.number("epsilon", 0);
  const double norm = step.number("norm_coefficient", 0);
  std::vector<std::vector<Id>> outputs(2);
  for (size_t i = 0; i < step.count; ++i) {
    const Id x = step.input(0, i), g = step.gradient(i, norm);
    const Id slower = p.add(p.number(1, x), step.times(decay, step.time(x)));
    const Id sum = p.add(step.input(2, i), p.multiply(g, g));
    const Id root = p.add(p.op("Sqrt", {sum}), p.number(epsilon, x));
    const Id rate = p.divide(step.rate(x), slower);
    outputs[0].push_back(p.subtract(x, p.divide(p.multiply(rate, g), root)));
    outputs[1].push_back(sum);
  }
  step.finish(outputs);
}

void compose_adam(PendingNode& node) {
  Step step(node, 4);
  Parts& p = step.parts;
  const double alpha = step.number("alpha", 0.9f), beta = step.number("beta", 0.999f);
  const double epsilon = step.number("epsilon", 1e-6f);
  const double norm = step.number("norm_coefficient", 0);
  const double norm_post = step.number("norm_coefficient_post", 0);
  std::vector<std::vector<Id>> outputs(3);
  for (size_t i = 0; i < step.count; ++i) {
    const Id x = step.input(0, i), g = step.gradient(i, norm), t = step.time(x);
    const Id v = p.add(step.times(alpha, step.input(2, i)), step.times(1 - alpha, g));
    const Id h = p.add(step.times(beta, step.input(3, i)), step.times(1 - beta, p.multiply(g, g)));
    const Id root = p.add(p.op("Sqrt", {h}), p.number(epsilon, x));
    // Before the first step there is no bias to correct.
    const auto rest = [&](double base) {
      return p.subtract(p.number(1, x), p.op("Pow", {p.number(base, x), t}));
    };
    const Id corrected =
        p.divide(p.multiply(step.rate(x), p.op("Sqrt", {rest(beta)})), rest(alpha));
    const Id started = p.op("Greater", {t, p.number(0, x)});
    const Id rate = p.op("Where", {started, corrected, step.rate(x)});
    const Id moved = p.subtract(x, p.multiply(rate, p.divide(v, root)));
    outputs[0].push_back(step.times(1 - norm_post, moved));
    outputs[1].push_back(v);
    outputs[2].push_back(h);
  }
  step.finish(outputs);
}

void compose_momentum(PendingNode& node) {
  Step step(node, 3);
  Parts& p = step.parts;
  const double alpha = step.number("alpha", 0), beta = step.number("beta", 0);
  const double norm = step.number("norm_coefficient", 0);
  const std::string mode = node.attributes.text("mode", "standard");
  if (mode != "standard" && mode != "nesterov") {
    throw_invalid("Momentum \"{}\": mode: expected standard or nesterov, got {}", node.name, mode);
  }
  std::vector<std::vector<Id>> outputs(2);
  for (size_t i = 0; i < step.count; ++i) {
    const Id x = step.input(0, i), g = step.gradient(i, norm);
    const Id started = p.op("Greater", {step.time(x), p.number(0, x)});
    const Id share = p.op("Where", {started, p.number(beta, x), p.number(1, x)});
    const Id v = p.add(step.times(alpha, step.input(2, i)), p.multiply(share, g));
    const Id direction = mode == "nesterov" ? p.add(g, step.times(alpha, v)) : v;
    outputs[0].push_back(p.subtract(x, p.multiply(step.rate(x), direction)));
    outputs[1].push_back(v);
  }
  step.finish(outputs);
}

}  // namespace stretto::onnx
