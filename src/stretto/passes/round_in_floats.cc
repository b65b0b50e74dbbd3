// Quantised models quantise and dequantise between their operators, and compute in float32 here.
// What such a pair does is rounding, and needs no integers:
//
//   DequantizeLinear(QuantizeLinear(x, s, z), t, z) = clip(round(x / s), low - z, high - z) * t
//
// where t is mostly s, of which the elementwise passes make one loop, or a part of one. NaN stays
// NaN; as an integer, where ONNX does not define it, it would be 0.
#include <algorithm>

#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/tensor/narrow.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"quantize-dequantize"};

// Input i of node n, where it is one number of any type, or 0 where it is absent.
std::optional<double> number(const Rewriter& graph, const Node& node, size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == kNone) return 0;
  const Tensor* value = graph.constant(node.inputs[i]);
  if (value == nullptr || value->count() != 1) return std::nullopt;
  return value->as_doubles()[0];
}

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node back = graph.node(n);
  const int forth = graph.maker(back.inputs[0], "QuantizeLinear");
  if (forth < 0) return;
  const Node& quantize = graph.node(forth);
  const ValueId x = quantize.inputs[0];
  const DType dtype = graph.dtype(back.inputs[0]);
  const auto scale = number(graph, quantize, 1), zero = number(graph, quantize, 2);
  const auto other = number(graph, back, 1);
  if (!scale || !zero || !other || number(graph, back, 2) != zero || !(*scale > 0) ||
      (!is_integer(dtype) && dtype != DType::kInt4 && dtype != DType::kUInt4) ||
      graph.dtype(x) != DType::kFloat32 || graph.dtype(back.outputs[0]) != DType::kFloat32 ||
      graph.dtype(quantize.inputs[1]) != DType::kFloat32 ||
      graph.dtype(back.inputs[1]) != DType::kFloat32 ||
      quantize.attributes.text("precision", "float32") != "float32" ||
      !context.allow("quantize-dequantize", back.name)) {
    return;
  }
  const Shape shape = graph.shape(x);
  const auto [low, high] = integer_range(dtype);
  const auto constant = [&](std::string_view name, double value) {
    const auto rounded = static_cast<float>(value);
    return graph.add_constant(name, Tensor::of<float>({}, {&rounded, 1}));
  };
  const auto insert = [&](std::string_view op, std::vector<ValueId> inputs) {
    return graph.insert(n, op, std::move(inputs), {}, DType::kFloat32, shape,
                        back.name + "." + std::string(op));
  };
  const ValueId steps = *scale == 1 ? x : insert("Div", {x, constant("scale", *scale)});
  const ValueId kept = insert("Clip", {insert("Round", {steps}), constant("low", low - *zero),
                                       constant("high", high - *zero)});
  graph.become(n, "Mul", {kept, constant("scale", *other)}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "DequantizeLinear")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kRoundInFloats{.name = "round-in-floats",
                          .summary = "quantise and dequantise at once, without integers",
                          .rules = kRules,
                          .run = run};

}  // namespace stretto::passes
