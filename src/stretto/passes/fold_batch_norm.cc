// Inference batch normalisation is one multiply-add per channel (arXiv:1502.03167, section 3.1).
// With constant statistics it moves into the weights and bias of the product before it, or of the
// convolution after it; so do Mul, Div, Add and Sub by a constant per channel. One that has neither
// neighbour becomes Mul and Add.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"fold-batch-norm", "fold-scale", "fold-shift",
                                       "batch-norm-into-next", "batch-norm-affine"};

// y = scale x + shift, one pair per channel. An empty list means all 1 or all 0.
struct Affine {
  ValueId x = kNone;
  std::string_view rule;
  std::vector<double> scale, shift;
};

std::optional<Affine> batch_norm(const Rewriter& graph, const Node& node) {
  if (node.attributes.integer("training_mode", 0) != 0) return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNone) return std::nullopt;
  }
  std::vector<double> parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    const Tensor* tensor = graph.constant(node.inputs[i + 1]);
    if (tensor == nullptr) return std::nullopt;
    parameters[i] = tensor->as_doubles();
  }
  const auto& [gamma, beta, mean, variance] = parameters;
  // As a file holds it, so that a module and the file that is made of it have the same weights.
  const double epsilon = static_cast<float>(node.attributes.number("epsilon", 1e-5f));
  Affine affine{.x = node.inputs[0], .rule = "fold-batch-norm"};
  for (size_t c = 0; c < gamma.size(); ++c) {
    affine.scale.push_back(gamma[c] / std::sqrt(variance[c] + epsilon));
    affine.shift.push_back(beta[c] - mean[c] * affine.scale[c]);
    // Multiplying out can combine infinities that were apart, and give NaN.
    if (!std::isfinite(affine.scale[c]) || !std::isfinite(affine.shift[c])) return std::nullopt;
  }
  return affine;
}

// The constant as one number per index of `axis` of `shape`; nothing when it varies along another.
std::vector<double> per_channel(const Tensor& constant, const Shape& shape, size_t axis) {
  if (constant.rank() > static_cast<int64_t>(shape.size())) return {};
  const size_t missing = shape.size() - static_cast<size_t>(constant.rank());
  for (size_t i = 0; i < constant.shape().size(); ++i) {
    if (i + missing != axis && constant.shape()[i] != 1) return {};
  }
  std::vector<double> values = constant.as_doubles();
  if (values.size() == 1) values.assign(static_cast<size_t>(shape[axis]), values[0]);
  return values;
}

// Node n as an affine map along `axis` of its result.
std::optional<Affine> affine_of(const Rewriter& graph, int n, size_t axis) {
  const Node& node = graph.node(n);
  const std::string_view op = node.op->name;
  if (graph.dtype(node.outputs[0]) != DType::kFloat32) return std::nullopt;
  if (op == "BatchNormalization") {
    return axis == 1 ? batch_norm(graph, node) : std::nullopt;
  }
  const bool add = op == "Add", sub = op == "Sub", mul = op == "Mul", div = op == "Div";
  if (!add && !sub && !mul && !div) return std::nullopt;
  const size_t side = graph.constant(node.inputs[1]) != nullptr ? 1 : 0;
  const ValueId x = node.inputs[1 - side];
  const Tensor* constant = graph.constant(node.inputs[side]);
  const Shape& shape = graph.shape(node.outputs[0]);
  if (constant == nullptr || graph.constant(x) != nullptr || graph.shape(x) != shape)
    return std::nullopt;
  if (div && side == 0) return std::nullopt;
  Affine affine{.x = x, .rule = mul || div ? "fold-scale" : "fold-shift"};
  std::vector<double> values = per_channel(*constant, shape, axis);
  if (values.empty()) return std::nullopt;
  if (div) {
    for (double& v : values) v = 1 / v;
  }
  if (sub && side == 1) {
    for (double& v : values) v = -v;
  }
  if (sub && side == 0) affine.scale.assign(values.size(), -1);
  (mul || div ? affine.scale : affine.shift) = std::move(values);
  const auto finite = [](double v) { return std::isfinite(v); };
  if (!std::all_of(affine.scale.begin(), affine.scale.end(), finite)) return std::nullopt;
  return affine;
}

// Which axis of a product's weight runs over output channels, and how a flat index finds its
// channel.
struct Channels {
  int64_t inner = 1;      // elements per step along the channel axis
  int64_t count = 1;      // steps along it
  int64_t group = 1;      // ConvTranspose only: [cin][cout / group], cin in `group` runs
  int64_t per_group = 0;  // input channels in each
};

Channels output_channels(const Node& node, const Tensor& weight) {
  const Shape& s = weight.shape();
  Channels c;
  if (node.op->name == "stretto.Linear") {
    const bool transposed = node.attributes.integer("trans_weight", 0) != 0;
    c.count = transposed ? s[0] : s[1];
    c.inner = transposed ? s[1] : 1;
  } else if (node.op->name == "stretto.Conv") {
    c.count = s[0];
    c.inner = weight.count() / std::max<int64_t>(s[0], 1);
  } else {
    c.count = s[1];
    c.inner = element_count(std::span(s).subspan(2));
    c.group = node.attributes.integer("group", 1);
    c.per_group = s[0] / c.group;
  }
  return c;
}

Tensor scaled_weight(const Node& node, const Tensor& weight, const std::vector<double>& scale) {
  const Channels c = output_channels(node, weight);
  Tensor out(DType::kFloat32, weight.shape());
  const float* from = weight.values<float>().data();
  float* to = out.mutable_values<float>().data();
  const int64_t outer = weight.count() / std::max<int64_t>(c.count * c.inner, 1);
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t base = c.per_group > 0 ? o / c.per_group * c.count : 0;
    for (int64_t channel = 0; channel < c.count; ++channel) {
      const double factor = scale[static_cast<size_t>(base + channel)];
      for (int64_t i = 0; i < c.inner; ++i, ++from, ++to) *to = static_cast<float>(*from * factor);
    }
  }
  return out;
}

Tensor float_vector(const std::vector<double>& values) {
  Tensor out(DType::kFloat32, {static_cast<int64_t>(values.size())});
  std::transform(values.begin(), values.end(), out.mutable_values<float>().begin(),
                 [](double v) { return static_cast<float>(v); });
  return out;
}

// Of a weight made for `node` with these factors, by their exact values.
std::string recipe(std::string_view what, const Node& node, const std::vector<double>& factors) {
  std::string text =
      fmt::format("{} of {} g{} t{} ", what, node.op->name, node.attributes.integer("group", 1),
                  node.attributes.integer("trans_weight", 0));
  return text.append(reinterpret_cast<const char*>(factors.data()),
                     factors.size() * sizeof(double));
}

bool is_product(const Rewriter& graph, int n) {
  return graph.is(n, "stretto.Conv") || graph.is(n, "stretto.ConvTranspose") ||
         graph.is(n, "stretto.Linear");
}

// Without epilogue, and its weights may change.
bool plain(const Node& node) {
  const bool residual = node.inputs.size() > 3 && node.inputs[3] != kNone;
  return !residual && node.attributes.integer("exact", 0) == 0 &&
         node.attributes.text("activation", "none") == "none";
}

// n = affine(product(x)): node n becomes the product with changed weights.
bool fold_into_previous(Rewriter& graph, int n, PassContext& context) {
  for (ValueId id : graph.node(n).inputs) {
    if (id == kNone || graph.constant(id) != nullptr) continue;
    const int before = graph.producer(id);
    if (before < 0 || !is_product(graph, before) || !graph.used_once(id)) continue;
    const Node product = graph.node(before);
    if (!plain(product)) continue;
    const size_t rank = graph.shape(id).size();
    const bool linear = product.op->name == "stretto.Linear";
    const auto affine = affine_of(graph, n, linear ? rank - 1 : 1);
    if (!affine || affine->x != id || !context.allow(affine->rule, graph.node(n).name)) continue;

    std::vector<ValueId> inputs = product.inputs;
    inputs.resize(3, kNone);
    const size_t channels = static_cast<size_t>(graph.shape(id)[linear ? rank - 1 : 1]);
    const Tensor* old_bias = graph.constant(inputs[2]);
    std::vector<double> bias =
        old_bias != nullptr ? old_bias->as_doubles() : std::vector<double>(channels, 0);
    for (size_t c = 0; c < channels; ++c) {
      if (!affine->scale.empty()) bias[c] *= affine->scale[c];
      if (!affine->shift.empty()) bias[c] += affine->shift[c];
    }
    if (!affine->scale.empty()) {
      const Tensor weight = *graph.constant(inputs[1]);
      const Tensor scaled =
          context.derive_one(recipe("scaled weight", product, affine->scale), std::array{weight},
                             [&] { return scaled_weight(product, weight, affine->scale); });
      inputs[1] = graph.add_constant(graph.name(inputs[1]), scaled);
    }
    if (old_bias != nullptr || !affine->shift.empty()) {
      inputs[2] = graph.add_constant(product.name + ".bias", float_vector(bias));
    } else {
      inputs.pop_back();
    }
    graph.become(n, product.op->name, std::move(inputs), product.attributes, product.name);
    return true;
  }
  return false;
}

// conv(affine(x)): exact only without padding, which would have to pad with -shift / scale.
bool fold_into_next(Rewriter& graph, int n, PassContext& context) {
  const Node norm = graph.node(n);
  const int next = graph.only_user(norm.outputs[0]);
  if (next < 0 || !graph.is(next, "stretto.Conv")) return false;
  const Node conv = graph.node(next);
  if (conv.attributes.integer("exact", 0) != 0) return false;
  const auto pads = conv.attributes.integers("pads", {});
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  const bool only_data = conv.inputs[0] == norm.outputs[0] && graph.used_once(norm.outputs[0]);
  const auto affine = batch_norm(graph, norm);
  if (padded || !only_data || !affine) return false;
  const Tensor weight = *graph.constant(conv.inputs[1]);
  if (weight.count() == 0) return false;  // no filter has a share of the channels
  if (!context.allow("batch-norm-into-next", norm.name)) return false;
  const int64_t cout = weight.dim(0), cin = weight.dim(1);
  const int64_t taps = weight.count() / (cout * cin);
  const int64_t per_group = cout / conv.attributes.integer("group", 1);
  std::vector<ValueId> inputs = conv.inputs;
  inputs.resize(std::max<size_t>(inputs.size(), 3), kNone);
  const Tensor* old_bias = graph.constant(inputs[2]);
  std::vector<double> bias = old_bias != nullptr
                                 ? old_bias->as_doubles()
                                 : std::vector<double>(static_cast<size_t>(cout), 0);
  const auto channel_of = [&](int64_t o, int64_t i) {
    return static_cast<size_t>(o / per_group * cin + i);
  };
  const float* from = weight.values<float>().data();
  for (int64_t o = 0; o < cout; ++o) {
    for (int64_t i = 0; i < cin; ++i) {
      const double shift = affine->shift[channel_of(o, i)];
      for (int64_t t = 0; t < taps; ++t) bias[static_cast<size_t>(o)] += *from++ * shift;
    }
  }
  const Tensor changed = context.derive_one(
      recipe("weight after a scale", conv, affine->scale), std::array{weight}, [&] {
        Tensor out(DType::kFloat32, weight.shape());
        const float* old = weight.values<float>().data();
        float* to = out.mutable_values<float>().data();
        for (int64_t o = 0; o < cout; ++o) {
          for (int64_t i = 0; i < cin; ++i) {
            const double scale = affine->scale[channel_of(o, i)];
            for (int64_t t = 0; t < taps; ++t) *to++ = static_cast<float>(*old++ * scale);
          }
        }
        return out;
      });
  inputs[0] = norm.inputs[0];
  inputs[1] = graph.add_constant(graph.name(inputs[1]), changed);
  inputs[2] = graph.add_constant(conv.name + ".bias", float_vector(bias));
  graph.become(next, "stretto.Conv", std::move(inputs), conv.attributes);
  return true;
}

void split_into_affine(Rewriter& graph, int n, PassContext& context) {
  const Node norm = graph.node(n);
  const auto affine = batch_norm(graph, norm);
  const Shape shape = graph.shape(norm.outputs[0]);
  if (!affine || shape.size() < 2 || graph.dtype(norm.outputs[0]) != DType::kFloat32) return;
  if (!context.allow("batch-norm-affine", norm.name)) return;
  Shape broadcast_shape(shape.size() - 1, 1);
  broadcast_shape[0] = shape[1];
  const ValueId scale = graph.add_constant(norm.name + ".scale",
                                           float_vector(affine->scale).reshaped(broadcast_shape));
  const ValueId shift = graph.add_constant(norm.name + ".shift",
                                           float_vector(affine->shift).reshaped(broadcast_shape));
  const ValueId product = graph.insert(n, "Mul", {norm.inputs[0], scale}, {}, DType::kFloat32,
                                       shape, norm.name + ".scaled");
  graph.become(n, "Add", {product, shift}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (fold_into_previous(rewriter, n, context)) continue;
    if (!rewriter.is(n, "BatchNormalization")) continue;
    if (!fold_into_next(rewriter, n, context)) split_into_affine(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFoldBatchNorm{.name = "fold-batch-norm",
                          .summary = "batch norms, constant scales and shifts into the weights",
                          .rules = kRules,
                          .run = run};

}  // namespace stretto::passes
