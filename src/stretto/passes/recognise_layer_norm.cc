// Finds layer normalisation (arXiv:1607.06450) spelled out as
//   d = x - mean(x);  d / sqrt(mean(d^2) + epsilon) [* scale] [+ bias]
// over the last axis, which is how exporters write it below opset 17, and RMS normalisation
// (arXiv:1910.07467), the same of x itself, without a bias: they write that below opset 23.
#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"layer-norm", "rms-norm"};

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
  if (id == kNone) return false;
  if (const int mul = graph.maker(id, "Mul"); mul >= 0) {
    return graph.node(mul).inputs[0] == d && graph.node(mul).inputs[1] == d;
  }
  const int pow = graph.maker(id, "Pow");
  if (pow < 0 || graph.node(pow).inputs[0] != d) return false;
  const auto exponent = scalar(graph, graph.node(pow).inputs[1]);
  return exponent && *exponent == 2;
}

// What `id` is the square root of; kNone when it is something else.
ValueId root_of(const Rewriter& graph, ValueId id) {
  const int root = graph.maker(id, "Sqrt");
  return root < 0 ? kNone : graph.node(root).inputs[0];
}

// What `id` is one over the square root of.
ValueId inverse_root_of(const Rewriter& graph, ValueId id) {
  if (const int n = graph.maker(id, "Reciprocal"); n >= 0) {
    return root_of(graph, graph.node(n).inputs[0]);
  }
  const int n = graph.maker(id, "Div");
  if (n < 0 || !all_equal(graph, graph.node(n).inputs[0], 1)) return kNone;
  return root_of(graph, graph.node(n).inputs[1]);
}

struct Normalised {
  ValueId x = kNone;
  double epsilon = 0;
  bool centred = false;  // layer normalisation; without a mean: RMS normalisation
};

// `d` over the root of `square`, when that is mean(d^2) + epsilon.
std::optional<Normalised> quotient(const Rewriter& graph, ValueId d, ValueId square) {
  const int add = square == kNone ? -1 : graph.maker(square, "Add");
  if (add < 0) return std::nullopt;
  const auto shifted = with_scalar(graph, add);
  if (!shifted || !is_square(graph, mean_of(graph, shifted->x), d)) return std::nullopt;
  const ValueId x = centred(graph, d);
  return Normalised{x == kNone ? d : x, shifted->c, x != kNone};
}

std::optional<Normalised> normalised(const Rewriter& graph, int n) {
  const auto& in = graph.node(n).inputs;
  if (graph.is(n, "Div")) return quotient(graph, in[0], root_of(graph, in[1]));
  if (const auto match = quotient(graph, in[0], inverse_root_of(graph, in[1]))) return match;
  return quotient(graph, in[1], inverse_root_of(graph, in[0]));
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
  // The longest of quotient, scaled, shifted whose inner results nobody else reads.
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
  if (match->centred) step("Add", bias);
  if (!context.allow(match->centred ? "layer-norm" : "rms-norm", graph.node(last).name)) return;
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
  graph.become(last, match->centred ? "LayerNormalization" : "RMSNormalization", std::move(inputs),
               std::move(attributes));
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "Div") || rewriter.is(n, "Mul")) recognise(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kRecogniseLayerNorm{.name = "recognise-layer-norm",
                               .summary = "one node for layer and RMS normalisation",
                               .rules = kRules,
                               .run = run};

}  // namespace stretto::passes
