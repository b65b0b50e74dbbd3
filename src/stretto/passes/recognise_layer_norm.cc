// Finds layer normalisation (arXiv:1607.06450) spelled out as
//   d = x - mean(x);  d / sqrt(mean(d^2) + epsilon) [* scale] [+ bias]
// over the last axis, which is how exporters write it below opset 17.
#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"layer-norm"};

// The value whose mean over the last axis, kept, `id` is; kNone when it is something else.
ValueId mean_of(const Rewriter& graph, ValueId id) {
  const int n = graph.maker(id, "ReduceMean");
  if (n < 0 || graph.node(n).attributes.integer("keepdims", 1) != 1) return kNone;
  const ValueId x = graph.node(n).inputs[0];
  const auto axes = reduce_axes(graph, n);
  const auto last = static_cast<int64_t>(graph.shape(x).size()) - 1;
  return axes && *axes == std::vector<int64_t>{last} ? x : kNone;
}

// x when `d` is x - mean(x).
ValueId centred(const Rewriter& graph, ValueId d) {
  const int sub = graph.maker(d, "Sub");
  if (sub < 0) return kNone;
  const auto& in = graph.node(sub).inputs;
  return mean_of(graph, in[1]) == in[0] ? in[0] : kNone;
}

bool is_square(const Rewriter& graph, ValueId id, ValueId d) {
  if (const int mul = graph.maker(id, "Mul"); mul >= 0) {
    return graph.node(mul).inputs[0] == d && graph.node(mul).inputs[1] == d;
  }
  const int pow = graph.maker(id, "Pow");
  if (pow < 0 || graph.node(pow).inputs[0] != d) return false;
  const auto exponent = scalar(graph, graph.node(pow).inputs[1]);
  return exponent && *exponent == 2;
}

struct Normalised {
  ValueId x = kNone;
  double epsilon = 0;
};

// Node n as (x - mean) / sqrt(variance + epsilon).
std::optional<Normalised> normalised(const Rewriter& graph, int n) {
  const auto& in = graph.node(n).inputs;
  const ValueId x = centred(graph, in[0]);
  const int root = graph.maker(in[1], "Sqrt");
  if (x == kNone || root < 0) return std::nullopt;
  const int add = graph.maker(graph.node(root).inputs[0], "Add");
  if (add < 0) return std::nullopt;
  const auto shifted = with_scalar(graph, add);
  if (!shifted || !is_square(graph, mean_of(graph, shifted->x), in[0])) return std::nullopt;
  return Normalised{x, shifted->c};
}

// The constant of a two-input `op` node when it has one number per element of the last axis.
ValueId per_last_axis(const Rewriter& graph, int n, ValueId x, int64_t width) {
  for (ValueId id : graph.node(n).inputs) {
    if (id != x && graph.constant(id) != nullptr && graph.shape(id) == Shape{width}) return id;
  }
  return kNone;
}

void recognise(Rewriter& graph, int n, PassContext& context) {
  const auto match = normalised(graph, n);
  if (!match) return;
  const Shape& shape = graph.shape(graph.node(n).outputs[0]);
  const int64_t width = shape.back();
  // The longest of div, div-mul, div-mul-add whose inner results nobody else reads.
  int last = n;
  ValueId scale = kNone, bias = kNone;
  const auto step = [&](std::string_view op, ValueId& constant) {
    const ValueId y = graph.node(last).outputs[0];
    const int user = graph.used_once(y) ? graph.only_user(y) : -1;
    if (user < 0 || !graph.is(user, op)) return;
    constant = per_last_axis(graph, user, y, width);
    if (constant != kNone) last = user;
  };
  step("Mul", scale);
  step("Add", bias);
  if (!context.allow("layer-norm", graph.node(last).name)) return;
  if (scale == kNone) {
    Tensor ones(graph.dtype(match->x), {width});
    Tensor source(DType::kFloat32, {width});
    std::ranges::fill(source.mutable_values<float>(), 1.0f);
    scale = graph.add_constant("ones", source.converted(ones.dtype()));
  }
  Attributes attributes;
  attributes.set("axis", int64_t{-1});
  attributes.set("epsilon", match->epsilon);
  std::vector<ValueId> inputs{match->x, scale};
  if (bias != kNone) inputs.push_back(bias);
  graph.become(last, "LayerNormalization", std::move(inputs), std::move(attributes));
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "Div")) recognise(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kRecogniseLayerNorm{.name = "recognise-layer-norm",
                               .summary = "one node for layer normalisation",
                               .rules = kRules,
                               .run = run};

}  // namespace stretto::passes
