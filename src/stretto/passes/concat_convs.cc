// Convolutions whose results are concatenated (MixNet; grouped convolutions of exporters that have
// none). When each reads its own equal part of one input they are a grouped convolution. Otherwise
// a batch norm or an activation of the whole moves to the parts, where it fuses with the
// convolutions.
#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/view.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"grouped-convolution", "batch-norm-before-concat",
                                       "activation-before-concat"};

// Whether node n joins channels.
bool joins_channels(const Rewriter& graph, int n) {
  if (!graph.is(n, "Concat") || graph.node(n).inputs.size() < 2) return false;
  const Shape& shape = graph.shape(graph.node(n).outputs[0]);
  const auto rank = static_cast<int64_t>(shape.size());
  return rank >= 3 && graph.dtype(graph.node(n).outputs[0]) == DType::kFloat32 &&
         normalize_axis(graph.node(n).attributes.integer("axis", 0), rank, "axis") == 1;
}

// The convolution without epilogue that makes `id` for one user only, else -1.
int convolution_of(const Rewriter& graph, ValueId id) {
  const int n = graph.used_once(id) ? graph.maker(id, "stretto.Conv") : -1;
  if (n < 0 || graph.constant(graph.node(n).inputs[1])->dtype() != DType::kFloat32) return -1;
  const Node& node = graph.node(n);
  const bool residual = node.inputs.size() > 3 && node.inputs[3] != kNone;
  return residual || node.attributes.text("activation", "none") != "none" ? -1 : n;
}

const Tensor* bias_of(const Rewriter& graph, const Node& conv) {
  return conv.inputs.size() > 2 ? graph.constant(conv.inputs[2]) : nullptr;
}

// Attributes of convolutions are numbers and lists of them; those of `a` and `b` are equal.
bool same_attributes(const Node& a, const Node& b) {
  for (std::string_view name : {"strides", "pads", "dilations"}) {
    if (a.attributes.integers(name, {}) != b.attributes.integers(name, {})) return false;
  }
  return a.attributes.integer("group", 1) == b.attributes.integer("group", 1) &&
         a.attributes.integer("exact", 0) == b.attributes.integer("exact", 0);
}

// Whether `id` is part number `i` of `count` equal parts of the channels of `source`.
bool is_part(const Rewriter& graph, ValueId id, size_t i, size_t count, ValueId source) {
  const View view = trace_view(graph, id);
  const Shape& whole = graph.shape(source);
  Shape part = whole;
  part[1] /= static_cast<int64_t>(count);
  if (view.source != source || view.scale != 1 || whole[1] % static_cast<int64_t>(count) != 0 ||
      view.shape != part) {
    return false;
  }
  int64_t stride = 1;
  for (size_t axis = whole.size(); axis-- > 0; stride *= whole[axis]) {
    if (part[axis] != 1 && view.strides[axis] != stride) return false;
  }
  const int64_t plane = element_count(std::span(whole).subspan(2));
  return view.offset == static_cast<int64_t>(i) * part[1] * plane;
}

// Concat n of convolutions of equal parts of one value becomes one convolution with groups.
bool to_grouped(Rewriter& graph, int n, PassContext& context) {
  std::vector<Node> parts;
  for (ValueId id : graph.node(n).inputs) {
    const int conv = convolution_of(graph, id);
    if (conv < 0) return false;
    parts.push_back(graph.node(conv));
  }
  const Node& first = parts[0];
  const ValueId source = trace_view(graph, first.inputs[0]).source;
  if (graph.shape(source).size() != graph.shape(first.inputs[0]).size()) return false;
  const Tensor& filters = *graph.constant(first.inputs[1]);
  bool biased = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!is_part(graph, parts[i].inputs[0], i, parts.size(), source) ||
        !same_attributes(parts[i], first) ||
        graph.constant(parts[i].inputs[1])->shape() != filters.shape()) {
      return false;
    }
    const bool has_bias = parts[i].inputs.size() > 2 && parts[i].inputs[2] != kNone;
    if (has_bias && bias_of(graph, parts[i]) == nullptr) return false;
    biased = biased || has_bias;
  }
  const Node concat = graph.node(n);
  if (!context.allow("grouped-convolution", concat.name)) return false;
  const auto count = static_cast<int64_t>(parts.size());
  const int64_t outputs = filters.dim(0);
  Tensor bias(DType::kFloat32, {outputs * count});
  std::vector<Tensor> weights;
  for (size_t i = 0; i < parts.size(); ++i) {
    weights.push_back(*graph.constant(parts[i].inputs[1]));
    if (const Tensor* part = bias_of(graph, parts[i])) {
      std::ranges::copy(part->values<float>(),
                        bias.mutable_values<float>().begin() + static_cast<int64_t>(i) * outputs);
    }
  }
  Attributes attributes = first.attributes;
  attributes.set("group", count * attributes.integer("group", 1));
  const std::string name = first.name + ".grouped";
  const Tensor weight =
      context.derive_one("filters in a row", weights, [&] { return in_a_row(weights); });
  std::vector<ValueId> inputs{source, graph.add_constant(name + "_weight", weight)};
  if (biased) inputs.push_back(graph.add_constant(name + "_bias", std::move(bias)));
  graph.become(n, "stretto.Conv", std::move(inputs), std::move(attributes), name);
  return true;
}

// The channels of `id` that [begin, begin + count) are.
ValueId part_of(Rewriter& graph, ValueId id, int64_t begin, int64_t count) {
  const Tensor whole = *graph.constant(id);
  Tensor part(DType::kFloat32, {count});
  std::ranges::copy(
      whole.values<float>().subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
      part.mutable_values<float>().begin());
  return graph.add_constant(graph.name(id) + ".part", std::move(part));
}

bool is_constant_norm(const Rewriter& graph, const Node& node) {
  if (node.op->name != "BatchNormalization" || node.outputs.size() > 1 ||
      node.attributes.integer("training_mode", 0) != 0) {
    return false;
  }
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) {
    const Tensor* value = graph.constant(id);
    return value != nullptr && value->dtype() == DType::kFloat32;
  });
}

// n = f(Concat(convolutions)) becomes Concat(f(convolution), ...).
void move_before_concat(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const bool norm = is_constant_norm(graph, node);
  const auto activation = match_activation(graph, n);
  if (!norm && (!activation || node.outputs.size() != 1)) return;
  const ValueId x = norm ? node.inputs[0] : activation->x;
  const int joined = graph.used_once(x) ? graph.maker(x, "Concat") : -1;
  if (joined < 0 || !joins_channels(graph, joined)) return;
  const Node concat = graph.node(joined);
  for (ValueId id : concat.inputs) {
    ValueId before = id;
    const int maker = graph.used_once(id) ? graph.maker(id, "BatchNormalization") : -1;
    if (!norm && maker >= 0) before = graph.node(maker).inputs[0];
    if (convolution_of(graph, before) < 0) return;
  }
  if (!context.allow(norm ? kRules[1] : kRules[2], node.name)) return;
  std::vector<ValueId> parts;
  int64_t begin = 0;
  for (ValueId id : concat.inputs) {
    const Shape shape = graph.shape(id);
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs) {
      if (input == x) {
        input = id;
      } else if (norm) {
        input = part_of(graph, input, begin, shape[1]);
      }
    }
    begin += shape[1];
    parts.push_back(graph.insert(n, node.op->name, std::move(inputs), node.attributes,
                                 DType::kFloat32, shape, node.name + ".part"));
  }
  graph.become(n, "Concat", std::move(parts), concat.attributes, concat.name);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (joins_channels(rewriter, n) && to_grouped(rewriter, n, context)) continue;
    move_before_concat(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kConcatConvs{.name = "concat-convs",
                        .summary = "concatenated convolutions as groups, or with what follows them",
                        .rules = kRules,
                        .run = run};

}  // namespace stretto::passes
