// Query, key and value projections of one input become one product with the matrices side by side:
// a wider matrix product runs closer to peak, and the input is read once. Attention finds its parts
// by column offset.
#include <algorithm>
#include <cstring>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"merge-projections"};
constexpr std::string_view kOffsets[] = {"q_offset", "k_offset", "v_offset"};

// A Linear without epilogue whose result only node `user` reads, else -1.
int projection(const Rewriter& graph, ValueId id, int user) {
  const int n = graph.maker(id, "stretto.Linear");
  if (n < 0 || graph.only_user(id) != user) return -1;
  const Node& node = graph.node(n);
  const bool residual = node.inputs.size() > 3 && node.inputs[3] != kNone;
  const Tensor* weight = graph.constant(node.inputs[1]);
  const bool plain =
      !residual && weight != nullptr && node.attributes.text("activation", "none") == "none";
  return plain ? n : -1;
}

// Matrices [k, n_i] beside each other as [k, sum n_i], or [n_i, k] below each other.
Tensor side_by_side(const std::vector<Tensor>& parts, bool transposed) {
  int64_t columns = 0;
  for (const Tensor& part : parts) columns += part.dim(transposed ? 0 : 1);
  const int64_t depth = parts[0].dim(transposed ? 1 : 0);
  Tensor out(DType::kFloat32, transposed ? Shape{columns, depth} : Shape{depth, columns});
  float* to = out.mutable_values<float>().data();
  if (transposed) {
    for (const Tensor& part : parts) {
      std::memcpy(to, part.data(), part.bytes());
      to += part.count();
    }
    return out;
  }
  for (int64_t row = 0; row < depth; ++row) {
    for (const Tensor& part : parts) {
      const float* from = part.values<float>().data() + row * part.dim(1);
      to = std::copy_n(from, part.dim(1), to);
    }
  }
  return out;
}

void merge(Rewriter& graph, int n, PassContext& context) {
  const Node attention = graph.node(n);
  // The projections of the input that most of q, k and v come from.
  std::vector<int> makers(3), merged;
  for (size_t i = 0; i < 3; ++i) {
    const bool rows = graph.shape(attention.inputs[i]).size() == 3;
    makers[i] = rows ? projection(graph, attention.inputs[i], n) : -1;
  }
  const auto mergeable = [&](int a, int b) {
    if (a < 0 || b < 0) return false;
    const Node& left = graph.node(a);
    const Node& right = graph.node(b);
    return left.inputs[0] == right.inputs[0] && left.attributes.integer("trans_weight", 0) ==
                                                    right.attributes.integer("trans_weight", 0);
  };
  for (int pivot : makers) {
    std::vector<int> group;
    for (int maker : makers) {
      if (mergeable(pivot, maker) && std::find(group.begin(), group.end(), maker) == group.end()) {
        group.push_back(maker);
      }
    }
    if (group.size() > merged.size()) merged = group;
  }
  if (merged.size() < 2 || !context.allow("merge-projections", attention.name)) return;

  const Node first = graph.node(merged[0]);
  const bool transposed = first.attributes.integer("trans_weight", 0) != 0;
  std::vector<Tensor> weights;
  std::vector<int64_t> starts;
  int64_t columns = 0;
  bool any_bias = false;
  for (int maker : merged) {
    const Node& node = graph.node(maker);
    weights.push_back(*graph.constant(node.inputs[1]));
    starts.push_back(columns);
    columns += weights.back().dim(transposed ? 0 : 1);
    any_bias = any_bias || (node.inputs.size() > 2 && node.inputs[2] != kNone);
  }
  const Tensor weight =
      context.derive_one(transposed ? "rows in a row" : "columns side by side", weights,
                         [&] { return side_by_side(weights, transposed); });
  std::vector<ValueId> inputs{first.inputs[0], graph.add_constant(first.name + ".merged", weight)};
  if (any_bias) {
    Tensor bias(DType::kFloat32, {columns});
    for (size_t i = 0; i < merged.size(); ++i) {
      const Node& node = graph.node(merged[i]);
      const Tensor* part = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
      if (part == nullptr) continue;
      std::ranges::copy(part->values<float>(), bias.mutable_values<float>().begin() + starts[i]);
    }
    inputs.push_back(graph.add_constant(first.name + ".merged_bias", std::move(bias)));
  }
  Shape shape = graph.shape(first.outputs[0]);
  shape.back() = columns;
  // After the last of the parts, so that every input exists.
  const ValueId packed = graph.insert(n, "stretto.Linear", std::move(inputs), first.attributes,
                                      DType::kFloat32, shape, first.name + ".merged");
  std::vector<ValueId> arguments = attention.inputs;
  Attributes attributes = attention.attributes;
  for (size_t i = 0; i < 3; ++i) {
    const auto at = std::find(merged.begin(), merged.end(), makers[i]);
    if (at == merged.end()) continue;
    arguments[i] = packed;
    const std::string name(kOffsets[i]);
    attributes.set(name,
                   attributes.integer(name, 0) + starts[static_cast<size_t>(at - merged.begin())]);
  }
  graph.become(n, "stretto.Attention", std::move(arguments), std::move(attributes));
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "stretto.Attention")) merge(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kMergeLinears{.name = "merge-linears",
                         .summary = "projections of one input as one product",
                         .rules = kRules,
                         .run = run};

}  // namespace stretto::passes
