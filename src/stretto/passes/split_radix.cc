// Split attention (arXiv:2004.08955) sums feature maps over a radix axis that it makes by reshaping
// channels: [n, r c, h, w] -> [n, r, c, h, w] -> sum over r, with or without a weight per channel.
// Five dimensions cannot stay in channel blocks; a Split into r maps and r - 1 sums can.
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"radix-sum", "radix-weighted-sum"};
constexpr int64_t kMaxRadix = 8;

// The 4-D value that `id` is a [n, r, c, h, w] view of; kNone when it is none.
ValueId unfolded(const Rewriter& graph, ValueId id, int64_t radix) {
  const Shape& five = graph.shape(id);
  const int reshape = graph.maker(id, "Reshape");
  if (reshape < 0 || five.size() != 5 || five[1] != radix) return kNone;
  const ValueId x = graph.node(reshape).inputs[0];
  const Shape& four = graph.shape(x);
  const bool fits = four.size() == 4 && four[0] == five[0] && four[1] == five[1] * five[2] &&
                    four[2] == five[3] && four[3] == five[4];
  return fits ? x : kNone;
}

std::vector<ValueId> split(Rewriter& graph, int anchor, ValueId x, int64_t radix) {
  Shape part = graph.shape(x);
  part[1] /= radix;
  const std::vector<int64_t> sizes(static_cast<size_t>(radix), part[1]);
  const ValueId lengths = graph.add_constant("split", Tensor::int64s(sizes));
  Attributes attributes;
  attributes.set("axis", int64_t{1});
  const std::vector<std::pair<DType, Shape>> outputs(sizes.size(), {DType::kFloat32, part});
  return graph.insert_many(anchor, "Split", {x, lengths}, attributes, outputs,
                           graph.name(x) + ".radix");
}

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const ValueId summed = node.inputs[0];
  const Shape five = graph.shape(summed);
  const auto axes = reduce_axes(graph, n);
  if (!axes || *axes != std::vector<int64_t>{1} || five.size() != 5 || five[1] > kMaxRadix ||
      five[1] < 2 || graph.dtype(summed) != DType::kFloat32 ||
      node.attributes.integer("keepdims", 1) != 0) {
    return;
  }
  const int64_t radix = five[1];
  const Shape part{five[0], five[2], five[3], five[4]};
  std::vector<ValueId> terms;
  if (const ValueId x = unfolded(graph, summed, radix); x != kNone) {
    if (!context.allow("radix-sum", node.name)) return;
    terms = split(graph, n, x, radix);
  } else if (const int mul = graph.maker(summed, "Mul"); mul >= 0 && graph.used_once(summed)) {
    const std::vector<ValueId> factors = graph.node(mul).inputs;
    ValueId maps[2];
    for (size_t i = 0; i < 2; ++i) maps[i] = unfolded(graph, factors[i], radix);
    if (maps[0] == kNone || maps[1] == kNone) return;
    if (!context.allow("radix-weighted-sum", node.name)) return;
    const auto a = split(graph, n, maps[0], radix), b = split(graph, n, maps[1], radix);
    for (size_t i = 0; i < a.size(); ++i) {
      terms.push_back(
          graph.insert(n, "Mul", {a[i], b[i]}, {}, DType::kFloat32, part, node.name + ".weighted"));
    }
  } else {
    return;
  }
  ValueId sum = terms[0];
  for (size_t i = 1; i + 1 < terms.size(); ++i) {
    sum = graph.insert(n, "Add", {sum, terms[i]}, {}, DType::kFloat32, part, node.name + ".sum");
  }
  graph.become(n, "Add", {sum, terms.back()}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "ReduceSum")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kSplitRadix{.name = "split-radix",
                       .summary = "sums over a radix axis as sums of 4-D maps",
                       .rules = kRules,
                       .run = run};

}  // namespace stretto::passes
