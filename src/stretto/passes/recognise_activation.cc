// Finds activations that exporters spell out as products, and writes each as one elementwise step.
// The product may be associated in any way and its scalar folded anywhere:
//   SiLU        x sigmoid(x)                                              arXiv:1702.03118
//   GELU        x / 2 (1 + erf(x / sqrt 2)), and its tanh approximation   arXiv:1606.08415
//   hard-swish  x clip(x + 3, 0, 6) / 6                                   arXiv:1905.02244
//   Mish        x tanh(softplus(x))                                       arXiv:1908.08681
#include <cmath>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"hard-sigmoid", "silu",       "gelu",
                                       "gelu-tanh",    "hard-swish", "mish"};

// A tree of Mul and Div-by-scalar whose inner results nobody else uses, as c * product(factors).
struct Product {
  double c = 1;
  std::vector<ValueId> factors;
};

// No pattern here has more than four factors or, however exporters write them, this many nodes.
// Beyond that a node counts as a factor, so that each of a long chain's nodes costs the same.
constexpr size_t kMaxFactors = 4;
constexpr int kMaxNodes = 32;

Product collect(const Rewriter& graph, int n) {
  Product product;
  std::vector<ValueId> left;  // in reverse order
  int nodes = 0;
  const auto open = [&](int product_node) {
    const Node& node = graph.node(product_node);
    ++nodes;
    if (node.op->name == "Mul") {
      left.push_back(node.inputs[1]);
    } else {
      product.c /= *scalar(graph, node.inputs[1]);
    }
    left.push_back(node.inputs[0]);
  };
  open(n);
  while (!left.empty()) {
    const ValueId id = left.back();
    left.pop_back();
    if (const auto c = scalar(graph, id)) {
      product.c *= *c;
      continue;
    }
    const int mul = graph.maker(id, "Mul"), div = graph.maker(id, "Div");
    const int inner = mul >= 0 ? mul : div;
    if (inner >= 0 && graph.used_once(id) && product.factors.size() < kMaxFactors &&
        nodes < kMaxNodes && (mul >= 0 || with_scalar(graph, div))) {
      open(inner);
    } else {
      product.factors.push_back(id);
    }
  }
  return product;
}

// `id` as c * x of an exact value x, for c * x spelled as Mul or Div by a scalar.
std::optional<WithScalar> scaled(const Rewriter& graph, ValueId id) {
  const int mul = graph.maker(id, "Mul"), div = graph.maker(id, "Div");
  if (mul < 0 && div < 0) return std::nullopt;
  auto match = with_scalar(graph, mul >= 0 ? mul : div);
  if (match && mul < 0) match->c = 1 / match->c;
  return match;
}

// The argument of `op` in 1 + op(argument); kNone when `id` is something else.
ValueId one_plus(const Rewriter& graph, ValueId id, std::string_view op) {
  const int add = graph.maker(id, "Add");
  if (add < 0) return kNone;
  const auto match = with_scalar(graph, add);
  if (!match || match->c != 1) return kNone;
  const int inner = graph.maker(match->x, op);
  return inner < 0 ? kNone : graph.node(inner).inputs[0];
}

bool is_cube(const Rewriter& graph, ValueId id, ValueId x) {
  if (const int pow = graph.maker(id, "Pow"); pow >= 0) {
    const auto exponent = scalar(graph, graph.node(pow).inputs[1]);
    return graph.node(pow).inputs[0] == x && exponent && *exponent == 3;
  }
  const int outer = graph.maker(id, "Mul");
  if (outer < 0) return false;
  const auto is_square = [&](ValueId square) {
    if (const int pow = graph.maker(square, "Pow"); pow >= 0) {
      const auto exponent = scalar(graph, graph.node(pow).inputs[1]);
      return graph.node(pow).inputs[0] == x && exponent && *exponent == 2;
    }
    const int inner = graph.maker(square, "Mul");
    return inner >= 0 && graph.node(inner).inputs[0] == x && graph.node(inner).inputs[1] == x;
  };
  const auto& in = graph.node(outer).inputs;
  return (in[0] == x && is_square(in[1])) || (in[1] == x && is_square(in[0]));
}

// sqrt(2 / pi) (x + 0.044715 x^3)
bool is_gelu_tanh_argument(const Rewriter& graph, ValueId id, ValueId x) {
  const auto outer = scaled(graph, id);
  if (!outer || !close(outer->c, std::sqrt(2 / M_PI))) return false;
  const int add = graph.maker(outer->x, "Add");
  if (add < 0) return false;
  const auto& in = graph.node(add).inputs;
  const ValueId other = in[0] == x ? in[1] : in[1] == x ? in[0] : kNone;
  if (other == kNone) return false;
  const auto cubic = scaled(graph, other);
  return cubic && close(cubic->c, 0.044715) && is_cube(graph, cubic->x, x);
}

// clip(x + 3, 0, 6): x, else kNone.
ValueId relu6_of_shifted(const Rewriter& graph, ValueId id) {
  const int clip = graph.maker(id, "Clip");
  if (clip < 0) return kNone;
  const auto match = match_activation(graph, clip);
  if (!match || match->name != "clip" || match->alpha != 0 || match->beta != 6) return kNone;
  const int add = graph.maker(match->x, "Add");
  if (add < 0) return kNone;
  const auto shifted = with_scalar(graph, add);
  return shifted && shifted->c == 3 ? shifted->x : kNone;
}

struct Recognised {
  std::string_view rule;
  std::string op;
  std::vector<double> literals;
};

// c * x * gate as an activation of x.
std::optional<Recognised> gated(const Rewriter& graph, double c, ValueId x, ValueId gate) {
  if (const int n = graph.maker(gate, "Sigmoid"); n >= 0 && c == 1) {
    if (graph.node(n).inputs[0] == x) return Recognised{"silu", "Silu", {}};
  }
  if (c == 0.5) {
    if (const ValueId u = one_plus(graph, gate, "Erf"); u != kNone) {
      const auto inner = scaled(graph, u);
      if (inner && inner->x == x && close(inner->c, M_SQRT1_2))
        return Recognised{"gelu", "Gelu", {}};
    }
    if (const ValueId u = one_plus(graph, gate, "Tanh"); u != kNone) {
      if (is_gelu_tanh_argument(graph, u, x)) return Recognised{"gelu-tanh", "GeluTanh", {}};
    }
  }
  if (close(c, 1.0 / 6) && relu6_of_shifted(graph, gate) == x) {
    return Recognised{"hard-swish", "HardSwish", {}};
  }
  if (const int n = graph.maker(gate, "HardSigmoid"); n >= 0 && c == 1) {
    const Attributes& a = graph.node(n).attributes;
    if (graph.node(n).inputs[0] == x && close(a.number("alpha", 0.2), 1.0 / 6) &&
        close(a.number("beta", 0.5), 0.5)) {
      return Recognised{"hard-swish", "HardSwish", {}};
    }
  }
  if (const int n = graph.maker(gate, "Tanh"); n >= 0 && c == 1) {
    const int softplus = graph.maker(graph.node(n).inputs[0], "Softplus");
    if (softplus >= 0 && graph.node(softplus).inputs[0] == x) return Recognised{"mish", "Mish", {}};
  }
  return std::nullopt;
}

void recognise(Rewriter& graph, int n, PassContext& context) {
  const ValueId y = graph.node(n).outputs[0];
  if (graph.dtype(y) != DType::kFloat32) return;
  if (graph.node(n).op->name == "Div" && !with_scalar(graph, n)) return;
  const Product product = collect(graph, n);
  const std::string name = graph.node(n).name;
  const auto rewrite = [&](const Recognised& found, ValueId x) {
    if (graph.shape(x) != graph.shape(y) || !context.allow(found.rule, name)) return false;
    ir::ElementwiseStep step{found.op, {{.kind = ir::ElementwiseArg::Kind::kInput}}};
    for (double v : found.literals) step.args.push_back({.literal = v});
    Attributes attributes;
    attributes.set("program", ir::elementwise_text({step}));
    graph.become(n, "stretto.Elementwise", {x}, std::move(attributes));
    return true;
  };
  if (product.factors.size() == 1 && close(product.c, 1.0 / 6)) {
    const ValueId x = relu6_of_shifted(graph, product.factors[0]);
    // A gate that multiplies its own argument is a hard-swish: leave it to the product above.
    const int user = graph.only_user(y);
    const bool gates = x != kNone && user >= 0 && graph.is(user, "Mul") &&
                       (graph.node(user).inputs[0] == x || graph.node(user).inputs[1] == x);
    if (x != kNone && !gates) rewrite({"hard-sigmoid", "HardSigmoid", {1.0 / 6, 0.5}}, x);
    return;
  }
  if (product.factors.size() != 2) return;
  for (int side = 0; side < 2; ++side) {
    const ValueId x = product.factors[side], gate = product.factors[1 - side];
    const auto found = gated(graph, product.c, x, gate);
    if (found && rewrite(*found, x)) return;
  }
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (rewriter.is(n, "Mul") || rewriter.is(n, "Div")) recognise(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kRecogniseActivation{.name = "recognise-activation",
                                .summary = "one node for SiLU, GELU, hard-swish, Mish",
                                .rules = kRules,
                                .run = run};

}  // namespace stretto::passes
