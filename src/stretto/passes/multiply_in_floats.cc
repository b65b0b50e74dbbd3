// Products of quantised tensors are those of small integers, which the importer writes down in
// int32 or float64: (Cast(a) - Cast(a's zero point)) times the same of b. Where their sums become
// float32 anyway, they are products in float32: exact as long as sums are below 2^24, and within
// float32's rounding of the sums above. What was quantised to 8 bits just before stays floats.
#include <algorithm>
#include <cmath>
#include <vector>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/tensor/narrow.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"integer-product"};

constexpr double kSmall = 510;  // differences of two numbers of 8 bits

bool has_8_bits(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

double largest(const Tensor& tensor) {
  double most = 0;
  for (const double value : tensor.as_doubles()) most = std::max(most, std::fabs(value));
  return most;
}

// The largest magnitude that the elements of an operand may have; infinity where it is not known.
double magnitude(const Rewriter& graph, ValueId id) {
  if (const Tensor* constant = graph.constant(id)) return largest(*constant);
  if (const int cast = graph.maker(id, "Cast"); cast >= 0) {
    return has_8_bits(graph.dtype(graph.node(cast).inputs[0])) ? kSmall / 2 : INFINITY;
  }
  const int difference = graph.maker(id, "Sub");
  if (difference < 0) return INFINITY;
  const std::vector<ValueId>& of = graph.node(difference).inputs;
  return magnitude(graph, of[0]) + magnitude(graph, of[1]);
}

class Floats {
 public:
  Floats(Rewriter& graph, PassContext& context, int anchor)
      : graph_(graph), context_(context), anchor_(anchor) {}

  // A small integer operand, or a bias, as float32.
  ValueId of(ValueId id) {
    if (const Tensor* constant = graph_.constant(id)) {
      const Tensor from = *constant;
      return graph_.add_constant(graph_.name(id) + ".floats",
                                 context_.derive_one("in floats", std::array{from}, [&] {
                                   return from.converted(DType::kFloat32);
                                 }));
    }
    if (const int difference = graph_.maker(id, "Sub"); difference >= 0) {
      const std::vector<ValueId> from = graph_.node(difference).inputs;
      return insert("Sub", {of(from[0]), of(from[1])}, graph_.shape(id));
    }
    const int cast = graph_.maker(id, "Cast");
    return cast_of(cast >= 0 ? graph_.node(cast).inputs[0] : id);
  }

 private:
  ValueId cast_of(ValueId x) {
    if (const int n = graph_.maker(x, "QuantizeLinear"); n >= 0) {
      if (const ValueId rounded = quantized(graph_.node(n), graph_.dtype(x)); rounded != kNone) {
        return rounded;
      }
    }
    Attributes attributes;
    attributes.set("to", std::string("float32"));
    return graph_.insert(anchor_, "Cast", {x}, attributes, DType::kFloat32, graph_.shape(x),
                         graph_.name(x) + ".floats");
  }

  // clip(round(x / scale) + zero point) of one scale for all; kNone for other ones.
  ValueId quantized(const Node& node, DType dtype) {
    const std::vector<ValueId> inputs = node.inputs;
    const ValueId x = inputs[0], scale = inputs[1];
    const bool has_zero = inputs.size() > 2 && inputs[2] != kNone;
    if (!has_8_bits(dtype) || graph_.dtype(x) != DType::kFloat32 ||
        graph_.dtype(scale) != DType::kFloat32 || !graph_.shape(scale).empty() ||
        (has_zero && !graph_.shape(inputs[2]).empty()) ||
        node.attributes.text("precision", "float32") != "float32") {
      return kNone;
    }
    const Shape shape = graph_.shape(x);
    ValueId y = insert("Round", {insert("Div", {x, scale}, shape)}, shape);
    if (has_zero) y = insert("Add", {y, cast_of(inputs[2])}, shape);
    const auto [low, high] = integer_range(dtype);
    return insert("Clip", {y, number(low), number(high)}, shape);
  }

  ValueId number(double value) {
    const auto rounded = static_cast<float>(value);
    return graph_.add_constant("bound", Tensor::of<float>({}, {&rounded, 1}));
  }

  ValueId insert(std::string_view op, std::vector<ValueId> inputs, Shape shape) {
    return graph_.insert(anchor_, op, std::move(inputs), {}, DType::kFloat32, std::move(shape),
                         "floats." + std::string(op));
  }

  Rewriter& graph_;
  PassContext& context_;
  const int anchor_;
};

// The casts to float32 that `id` goes into, through one to int32 perhaps; false if it also has
// other uses.
bool casts_to_floats(const Rewriter& graph, ValueId id, std::vector<int>& casts) {
  if (graph.is_output(id) || graph.users(id).empty()) return false;
  return std::all_of(graph.users(id).begin(), graph.users(id).end(), [&](int user) {
    if (!graph.is(user, "Cast")) return false;
    const ValueId to = graph.node(user).outputs[0];
    if (graph.dtype(to) == DType::kInt32) return casts_to_floats(graph, to, casts);
    casts.push_back(user);
    return graph.dtype(to) == DType::kFloat32;
  });
}

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const ValueId sums = node.outputs[0];
  const DType dtype = graph.dtype(sums);
  std::vector<int> casts;
  if ((dtype != DType::kInt32 && dtype != DType::kFloat64) ||
      magnitude(graph, node.inputs[0]) > kSmall || magnitude(graph, node.inputs[1]) > kSmall ||
      !casts_to_floats(graph, sums, casts)) {
    return;
  }
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  if (has_bias && graph.constant(node.inputs[2]) == nullptr) return;
  if (!context.allow("integer-product", node.name)) return;
  Floats floats(graph, context, n);
  std::vector<ValueId> inputs{floats.of(node.inputs[0]), floats.of(node.inputs[1])};
  if (has_bias) inputs.push_back(floats.of(node.inputs[2]));
  const Shape shape = graph.shape(sums);
  const ValueId product = graph.insert(n, node.op->name, inputs, node.attributes, DType::kFloat32,
                                       shape, node.name + ".floats");
  for (const int cast : casts) graph.become(cast, "Identity", {product}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul") || rewriter.is(n, "Conv")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kMultiplyInFloats{.name = "multiply-in-floats",
                             .summary = "products of small integers as products of floats",
                             .rules = kRules,
                             .run = run};

}  // namespace stretto::passes
