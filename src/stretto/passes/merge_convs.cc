// Convolutions of one input with the same window become one convolution with their filters one
// behind the other: the input is read, and for Winograd transformed, once. Detection heads and
// Inception blocks look like that.
#include <algorithm>
#include <cstring>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"merge-convolutions"};

// Outputs must be whole blocks of channels of any instruction set and the batch one image: then the
// parts of the merged result are just places in it.
constexpr int64_t kWholeBlocks = 16;

// A convolution without groups and residual whose weights are known.
bool mergeable(const Rewriter& graph, int n) {
  if (!graph.is(n, "stretto.Conv")) return false;
  const Node& node = graph.node(n);
  const Shape& y = graph.shape(node.outputs[0]);
  const Tensor* weight = graph.constant(node.inputs[1]);
  const bool residual = node.inputs.size() > 3 && node.inputs[3] != kNone;
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  return weight != nullptr && weight->dtype() == DType::kFloat32 && !residual &&
         (!bias || graph.constant(node.inputs[2]) != nullptr) &&
         node.attributes.integer("group", 1) == 1 && y.size() == 4 && y[0] == 1 &&
         y[1] % kWholeBlocks == 0;
}

bool same_window(const Rewriter& graph, int a, int b) {
  const Tensor& left = *graph.constant(graph.node(a).inputs[1]);
  const Tensor& right = *graph.constant(graph.node(b).inputs[1]);
  const auto& l = graph.node(a).attributes.all();
  const auto& r = graph.node(b).attributes.all();
  const auto equal = [](const ir::Attribute& x, const ir::Attribute& y) {
    // Convolutions have no tensor attributes, and tensors do not compare.
    return x.index() == y.index() && std::visit(
                                         [&]<typename T>(const T& value) {
                                           if constexpr (std::is_same_v<T, Tensor>)
                                             return false;
                                           else
                                             return value == std::get<T>(y);
                                         },
                                         x);
  };
  return std::equal(left.shape().begin() + 1, left.shape().end(), right.shape().begin() + 1,
                    right.shape().end()) &&
         l.size() == r.size() &&
         std::equal(l.begin(), l.end(), r.begin(), [&](const auto& x, const auto& y) {
           return x.first == y.first && equal(x.second, y.second);
         });
}

void merge(Rewriter& graph, const std::vector<int>& group, PassContext& context) {
  const Node first = graph.node(group[0]);
  Shape shape = graph.shape(first.outputs[0]);
  shape[1] = 0;
  std::vector<int64_t> sizes;
  for (int n : group) {
    sizes.push_back(graph.shape(graph.node(n).outputs[0])[1]);
    shape[1] += sizes.back();
  }
  Tensor bias(DType::kFloat32, {shape[1]});
  std::vector<Tensor> weights;
  int64_t start = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const Node& node = graph.node(group[i]);
    weights.push_back(*graph.constant(node.inputs[1]));
    if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
      std::ranges::copy(graph.constant(node.inputs[2])->values<float>(),
                        bias.mutable_values<float>().begin() + start);
    }
    start += sizes[i];
  }
  const Tensor weight =
      context.derive_one("filters in a row", weights, [&] { return in_a_row(weights); });
  const std::string name = first.name + ".merged";
  const ValueId w = graph.add_constant(name + "_weight", weight);
  const ValueId b = graph.add_constant(name + "_bias", std::move(bias));
  const ValueId y = graph.insert(group[0], "stretto.Conv", {first.inputs[0], w, b},
                                 first.attributes, DType::kFloat32, shape, name);
  std::vector<std::pair<DType, Shape>> outputs;
  for (int64_t size : sizes) {
    outputs.push_back({DType::kFloat32, {shape[0], size, shape[2], shape[3]}});
  }
  Attributes attributes;
  attributes.set("axis", int64_t{1});
  const ValueId split = graph.add_constant(name + "_sizes", Tensor::int64s(sizes));
  const std::vector<ValueId> parts =
      graph.insert_many(group[0], "Split", {y, split}, attributes, outputs, name + "_parts");
  for (size_t i = 0; i < group.size(); ++i) {
    graph.replace(graph.node(group[i]).outputs[0], parts[i]);
  }
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!mergeable(rewriter, n)) continue;
    // Later users of the same input with the same window; n is the first of them.
    std::vector<int> group{n};
    for (int other : rewriter.users(rewriter.node(n).inputs[0])) {
      if (other <= n || !mergeable(rewriter, other) || !same_window(rewriter, n, other)) continue;
      const bool reads_as_input = rewriter.node(other).inputs[0] == rewriter.node(n).inputs[0];
      const bool seen = std::find(group.begin(), group.end(), other) != group.end();
      if (reads_as_input && !seen) group.push_back(other);
    }
    const bool faces = std::any_of(group.begin(), group.end(), [&](int m) {
      return rewriter.is_output(rewriter.node(m).outputs[0]);
    });
    if (group.size() < 2 || faces) continue;
    if (!context.allow("merge-convolutions", rewriter.node(n).name)) continue;
    merge(rewriter, group, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kMergeConvs{.name = "merge-convs",
                       .summary = "convolutions of one input as one convolution",
                       .rules = kRules,
                       .run = run};

}  // namespace stretto::passes
