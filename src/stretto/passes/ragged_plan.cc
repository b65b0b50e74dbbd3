#include "stretto/passes/ragged_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"

namespace stretto::passes {
namespace {

using Plan = std::optional<TokenNode>;

bool one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

class Planner {
 public:
  Planner(const Rewriter& graph, ValueId mask, Ragged& ragged)
      : graph_(graph),
        mask_(mask),
        ragged_(ragged),
        batch_(graph.shape(mask)[0]),
        length_(graph.shape(mask)[1]),
        forms_(graph.graph().values.size(), TokenForm::kNone),
        regions_(graph.graph().values.size(), -1) {}

  std::vector<TokenNode> run();

 private:
  // Of node n, from what is known of the nodes before it.
  Plan plan(int n);
  Plan elementwise(const Node& node);
  Plan linear(const Node& node);
  Plan along_rows(int n, const Node& node);
  Plan gather(const Node& node);
  Plan reshape(const Node& node);
  Plan joined(const Node& node);
  Plan attention(int n, const Node& node);

  TokenForm form(ValueId id) const {
    return id == kNone ? TokenForm::kNone : forms_[static_cast<size_t>(id)];
  }
  // What the leading dimensions of a shape count, if they count tokens.
  bool leads(const Shape& shape, TokenForm form) const;
  std::optional<TokenUse> use(ValueId id, TokenForm form, size_t rank) const;
  // A plan that takes input 0 packed and the others as they are.
  Plan first_packed(const Node& node, TokenForm form) const;
  bool is_input(ValueId id) const { return graph_.producer(id) < 0 && !graph_.constant(id); }
  bool mask_is_plain(ValueId operand);

  int root(int region) {
    while (parents_[static_cast<size_t>(region)] != region) {
      region = parents_[static_cast<size_t>(region)];
    }
    return region;
  }
  void connect(int n, const TokenNode& planned);

  const Rewriter& graph_;
  const ValueId mask_;
  Ragged& ragged_;
  const int64_t batch_, length_;
  std::vector<TokenForm> forms_;
  // Values that packed nodes connect are of one region, those that are packed themselves.
  std::vector<int> regions_, parents_;
  std::vector<int> attentions_;  // nodes that can be packed
  std::vector<std::pair<ValueId, bool>> plain_masks_;
};

bool Planner::leads(const Shape& shape, TokenForm form) const {
  if (form == TokenForm::kPair) {
    return shape.size() >= 2 && shape[0] == batch_ && shape[1] == length_;
  }
  return form == TokenForm::kFlat && !shape.empty() && shape[0] == batch_ * length_;
}

std::optional<TokenUse> Planner::use(ValueId id, TokenForm form, size_t rank) const {
  if (id == kNone) return TokenUse::kAsIs;
  const Shape& shape = graph_.shape(id);
  if (shape.size() > rank) return std::nullopt;
  if (shape.size() == rank && this->form(id) == form) return TokenUse::kPacked;
  const auto dim = [&](size_t axis) {
    const size_t missing = rank - shape.size();
    return axis < missing ? 1 : shape[axis - missing];
  };
  if (form == TokenForm::kFlat) {
    if (dim(0) == 1) return TokenUse::kAsIs;
    return dim(0) == batch_ * length_ ? std::optional(TokenUse::kRows) : std::nullopt;
  }
  if (dim(0) == 1 && dim(1) == 1) return TokenUse::kAsIs;
  if (dim(0) == batch_ && dim(1) == length_) return TokenUse::kRows;
  if (dim(0) == 1 && dim(1) == length_) return TokenUse::kPositions;
  if (dim(0) == batch_ && dim(1) == 1) return TokenUse::kSamples;
  return std::nullopt;
}

Plan Planner::first_packed(const Node& node, TokenForm form) const {
  TokenNode planned{form, std::vector(node.inputs.size(), TokenUse::kAsIs)};
  planned.uses[0] = TokenUse::kPacked;
  return planned;
}

Plan Planner::elementwise(const Node& node) {
  const Shape& y = graph_.shape(node.outputs[0]);
  TokenForm found = TokenForm::kNone;
  for (ValueId id : node.inputs) {
    if (id == kNone || graph_.shape(id).size() != y.size()) continue;
    if (form(id) != TokenForm::kNone) found = form(id);
  }
  // Embeddings that the caller made.
  for (ValueId id : node.inputs) {
    if (found != TokenForm::kNone || id == kNone || y.size() < 3) continue;
    if (is_input(id) && is_float(graph_.dtype(id)) && leads(graph_.shape(id), TokenForm::kPair) &&
        graph_.shape(id).size() == y.size()) {
      found = TokenForm::kPair;
    }
  }
  if (found == TokenForm::kNone || !leads(y, found)) return std::nullopt;
  TokenNode planned{found, {}};
  for (ValueId id : node.inputs) {
    const auto how = use(id, found, y.size());
    if (!how) return std::nullopt;
    planned.uses.push_back(*how);
  }
  return planned;
}

Plan Planner::linear(const Node& node) {
  const ValueId x = node.inputs[0];
  const Shape& y = graph_.shape(node.outputs[0]);
  const Shape& weight = graph_.shape(node.inputs[1]);
  if (weight.size() != 2 || form(node.inputs[1]) != TokenForm::kNone) return std::nullopt;
  TokenForm found = form(x);
  if (found == TokenForm::kNone && y.size() >= 3 && graph_.constant(x) == nullptr &&
      leads(graph_.shape(x), TokenForm::kPair)) {
    found = TokenForm::kPair;
  }
  if (found == TokenForm::kNone || graph_.shape(x).size() <= leading(found)) return std::nullopt;
  TokenNode planned{found, std::vector(node.inputs.size(), TokenUse::kAsIs)};
  planned.uses[0] = form(x) == TokenForm::kNone ? TokenUse::kRows : TokenUse::kPacked;
  if (node.op->name == "stretto.Linear" && node.inputs.size() > 3) {
    const auto residual = use(node.inputs[3], found, y.size());
    if (!residual) return std::nullopt;
    planned.uses[3] = *residual;
  }
  return planned;
}

// Operators that combine elements of axes behind the tokens'.
Plan Planner::along_rows(int n, const Node& node) {
  const std::string_view op = node.op->name;
  const ValueId x = node.inputs[0];
  const auto rank = static_cast<int64_t>(graph_.shape(x).size());
  const auto behind = [&](int64_t axis) {
    return normalize_axis(axis, rank, "axis") >= static_cast<int64_t>(leading(form(x)));
  };
  const auto all_behind = [&](const std::optional<std::vector<int64_t>>& axes) {
    return axes && std::all_of(axes->begin(), axes->end(), behind);
  };
  const Attributes& a = node.attributes;
  const auto absent = [&](const std::vector<ValueId>& ids, size_t from) {
    return std::all_of(ids.begin() + static_cast<int64_t>(std::min(from, ids.size())), ids.end(),
                       [](ValueId id) { return id == kNone; });
  };
  bool fits = false;
  if (op == "LayerNormalization" || op == "RMSNormalization") {
    fits = behind(a.integer("axis", -1)) && absent(node.outputs, 1);
  } else if (op == "Softmax" || op == "LogSoftmax" || op == "LpNormalization") {
    fits = behind(a.integer("axis", -1));
  } else if (op.starts_with("Reduce")) {
    fits = all_behind(reduce_axes(graph_, n));
  } else if (op == "Slice") {
    fits = node.inputs.size() > 3 && all_behind(integers(graph_, n, 3, ""));
  } else if (op == "Split") {
    fits = behind(a.integer("axis", 0)) &&
           std::none_of(node.outputs.begin(), node.outputs.end(),
                        [&](ValueId id) { return id == kNone || graph_.is_output(id); });
  } else if (op == "Transpose") {
    const auto perm = permutation(graph_, n);
    fits = perm[0] == 0 && (leading(form(x)) == 1 || perm[1] == 1);
  }
  // Scales, biases and lists of axes.
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    fits = fits && form(node.inputs[i]) == TokenForm::kNone;
  }
  return fits ? first_packed(node, form(x)) : std::nullopt;
}

Plan Planner::gather(const Node& node) {
  const ValueId data = node.inputs[0], indices = node.inputs[1];
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0),
                                      static_cast<int64_t>(graph_.shape(data).size()), "axis");
  if (form(data) != TokenForm::kNone) {
    if (form(indices) != TokenForm::kNone || axis < static_cast<int64_t>(leading(form(data)))) {
      return std::nullopt;
    }
    return first_packed(node, form(data));
  }
  // Rows of an embedding table, by indices of the tokens.
  if (axis != 0 || graph_.shape(data).size() != 2 || graph_.constant(indices) != nullptr) {
    return std::nullopt;
  }
  const TokenForm found = form(indices) == TokenForm::kNone ? TokenForm::kPair : form(indices);
  const Shape& shape = graph_.shape(indices);
  if (!leads(shape, found) || shape.size() != leading(found)) return std::nullopt;
  const auto how = use(indices, found, shape.size());
  return TokenNode{found, {TokenUse::kAsIs, *how}};
}

Plan Planner::reshape(const Node& node) {
  const Shape& y = graph_.shape(node.outputs[0]);
  for (TokenForm to : {TokenForm::kPair, TokenForm::kFlat}) {
    if (leads(y, to)) return first_packed(node, to);
  }
  return std::nullopt;
}

// Concat, of rows of which some may still be padded.
Plan Planner::joined(const Node& node) {
  TokenForm found = TokenForm::kNone;
  for (ValueId id : node.inputs) found = found == TokenForm::kNone ? form(id) : found;
  const Shape& y = graph_.shape(node.outputs[0]);
  const auto axis = static_cast<size_t>(
      normalize_axis(node.attributes.integer("axis", 0), static_cast<int64_t>(y.size()), "axis"));
  if (found == TokenForm::kNone || axis < leading(found)) return std::nullopt;
  TokenNode planned{found, {}};
  for (ValueId id : node.inputs) {
    const auto how = use(id, found, y.size());
    if (how != TokenUse::kPacked && how != TokenUse::kRows) return std::nullopt;
    planned.uses.push_back(*how);
  }
  return planned;
}

bool Planner::mask_is_plain(ValueId operand) {
  for (const auto& [id, plain] : plain_masks_) {
    if (id == operand) return plain;
  }
  bool plain = false;
  const std::string key =
      fmt::format("{} {} {}", graph_.name(operand), shape_text(graph_.shape(operand)),
                  shape_text(graph_.shape(mask_)));
  if (ragged_.known != nullptr && ragged_.known->contains(key)) {
    plain = ragged_.known->at(key);
  } else {
    plain = hides_padding(graph_.graph(), operand, mask_);
    if (ragged_.known != nullptr) ragged_.known->emplace(key, plain);
  }
  plain_masks_.emplace_back(operand, plain);
  return plain;
}

Plan Planner::attention(int n, const Node& node) {
  ++ragged_.attentions;
  const auto refuse = [&](std::string_view why) {
    ragged_.not_packed.push_back(fmt::format("{}: {}", node.name, why));
    return std::nullopt;
  };
  for (size_t i = 0; i < 3; ++i) {
    if (form(node.inputs[i]) != TokenForm::kPair || graph_.shape(node.inputs[i]).size() != 3) {
      return refuse("its queries, keys and values are not all rows of the tokens");
    }
  }
  // Else a text of the same shape would lose what this mask hides of the other one.
  const auto region = [&](size_t i) { return root(regions_[static_cast<size_t>(node.inputs[i])]); };
  if (region(0) != region(1) || region(0) != region(2)) {
    return refuse("its queries are of other tokens than its keys and values");
  }
  if (node.inputs.size() < 4 || node.inputs[3] == kNone) {
    return refuse("it has no mask, so it sees padding");
  }
  if (!mask_is_plain(node.inputs[3])) {
    return refuse(
        fmt::format("its mask does not hide what {} does, and nothing else", graph_.name(mask_)));
  }
  attentions_.push_back(n);
  TokenNode planned{TokenForm::kPair, std::vector(node.inputs.size(), TokenUse::kPacked)};
  planned.uses[3] = TokenUse::kAsIs;
  return planned;
}

Plan Planner::plan(int n) {
  const Node& node = graph_.node(n);
  const std::string_view op = node.op->name;
  if (node.inputs.empty() || node.inputs[0] == kNone) return std::nullopt;
  if (graph_.constant(node.outputs[0]) != nullptr) return std::nullopt;
  if (op == "stretto.Attention") return attention(n, node);
  if (one_of(op, {"stretto.Linear", "stretto.IntegerLinear", "MatMul"})) return linear(node);
  if (op == "Gather") return gather(node);
  if (op == "Concat") return joined(node);
  const TokenForm first = form(node.inputs[0]);
  if (one_of(op, {"Reshape", "Squeeze", "Unsqueeze", "Flatten"})) {
    return first == TokenForm::kNone ? std::nullopt : reshape(node);
  }
  if (op == "Expand") {
    const Shape& y = graph_.shape(node.outputs[0]);
    const bool fits = first != TokenForm::kNone && leads(y, first) &&
                      y.size() == graph_.shape(node.inputs[0]).size();
    return fits ? first_packed(node, first) : std::nullopt;
  }
  if (one_of(op, {"stretto.Elementwise", "Cast", "PRelu", "Mod"}) ||
      ir::elementwise_program(node)) {
    return elementwise(node);
  }
  return first == TokenForm::kNone ? std::nullopt : along_rows(n, node);
}

void Planner::connect(int n, const TokenNode& planned) {
  const Node& node = graph_.node(n);
  int region = -1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (planned.uses[i] != TokenUse::kPacked) continue;
    const int other = root(regions_[static_cast<size_t>(node.inputs[i])]);
    if (region >= 0) parents_[static_cast<size_t>(other)] = region;
    region = region >= 0 ? region : other;
  }
  if (region < 0) {
    region = static_cast<int>(parents_.size());
    parents_.push_back(region);
  }
  for (ValueId id : node.outputs) {
    if (id == kNone) continue;
    forms_[static_cast<size_t>(id)] = planned.form;
    regions_[static_cast<size_t>(id)] = region;
  }
}

std::vector<TokenNode> Planner::run() {
  std::vector<TokenNode> nodes(static_cast<size_t>(graph_.count()));
  for (int n = 0; n < graph_.count(); ++n) {
    if (!graph_.alive(n)) continue;
    const Plan planned = plan(n);
    if (!planned) continue;
    connect(n, *planned);
    nodes[static_cast<size_t>(n)] = *planned;
  }
  ragged_.packed = static_cast<int>(attentions_.size());
  std::vector<bool> kept(parents_.size());
  for (int n : attentions_) {
    kept[static_cast<size_t>(root(regions_[static_cast<size_t>(graph_.node(n).outputs[0])]))] =
        true;
  }
  const auto is_kept = [&](ValueId id) {
    return form(id) != TokenForm::kNone &&
           kept[static_cast<size_t>(root(regions_[static_cast<size_t>(id)]))];
  };
  for (int n = 0; n < graph_.count(); ++n) {
    if (!graph_.alive(n)) continue;
    const Node& node = graph_.node(n);
    TokenNode& planned = nodes[static_cast<size_t>(n)];
    if (planned.form != TokenForm::kNone && is_kept(node.outputs[0])) continue;
    planned = {};
    if (std::any_of(node.inputs.begin(), node.inputs.end(), is_kept)) {
      ragged_.unpacked.push_back(fmt::format("{} ({})", node.name, node.op->name));
    }
  }
  return nodes;
}

}  // namespace

std::vector<TokenNode> plan_ragged(const Rewriter& graph, ValueId mask, Ragged& ragged) {
  ragged.attentions = ragged.packed = 0;
  ragged.not_packed.clear();
  ragged.unpacked.clear();
  return Planner(graph, mask, ragged).run();
}

}  // namespace stretto::passes
