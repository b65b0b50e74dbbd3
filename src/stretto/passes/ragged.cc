#include "stretto/passes/ragged.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/ragged_plan.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"pack-rows"};

// Rewrites the nodes that a plan names, in order. A node that takes packed rows is inserted before
// the one that it stands for; the latter becomes the way back to padded values, and goes when
// nobody needs them.
class Packer {
 public:
  Packer(Rewriter& graph, ValueId mask, int64_t rows)
      : graph_(graph),
        mask_(mask),
        rows_(rows),
        batch_(graph.shape(mask)[0]),
        length_(graph.shape(mask)[1]) {}

  void pack(int n, const TokenNode& planned);

 private:
  enum Index { kRows, kPlaces, kStarts, kPositions, kSamples };

  ValueId index(int anchor, Index which);
  ValueId reshaped(int anchor, ValueId x, const Shape& shape);
  ValueId take(int anchor, ValueId x, ValueId index, std::string_view name);
  // The rows of a padded value that the tokens need, in a shape of this rank.
  ValueId packed_rows(int anchor, ValueId x, TokenUse use, TokenForm form, size_t rank);
  ValueId padded(int anchor, ValueId packed, const Shape& shape, TokenForm form);

  // What a padded shape is with packed rows.
  Shape packed_shape(const Shape& shape, TokenForm form) const {
    Shape packed(shape.begin() + static_cast<int64_t>(leading(form)), shape.end());
    packed.insert(packed.begin(), rows_);
    if (form == TokenForm::kPair) packed.insert(packed.begin(), 1);
    return packed;
  }

  Rewriter& graph_;
  const ValueId mask_;
  const int64_t rows_, batch_, length_;
  std::vector<ValueId> indices_;       // outputs of stretto.RowIndex
  std::map<ValueId, ValueId> packed_;  // by padded value
  std::map<std::tuple<ValueId, TokenUse, TokenForm, size_t>, ValueId> taken_;
};

ValueId Packer::index(int anchor, Index which) {
  if (indices_.empty()) {
    ValueId mask = mask_;
    if (graph_.dtype(mask) != DType::kBool) {
      Attributes to;
      to.set("to", std::string(dtype_name(DType::kBool)));
      mask = graph_.insert(anchor, "Cast", {mask}, to, DType::kBool, graph_.shape(mask_),
                           graph_.name(mask_) + ".is_token");
    }
    Attributes attributes;
    attributes.set("rows", rows_);
    const DType type = DType::kInt32;
    indices_ = graph_.insert_many(anchor, "stretto.RowIndex", {mask}, attributes,
                                  {{type, {rows_}},
                                   {type, {batch_ * length_}},
                                   {type, {batch_ + 1}},
                                   {type, {rows_}},
                                   {type, {rows_}}},
                                  graph_.name(mask_) + ".rows");
  }
  return indices_[which];
}

ValueId Packer::reshaped(int anchor, ValueId x, const Shape& shape) {
  if (graph_.shape(x) == shape) return x;
  const ValueId target = graph_.add_constant("shape", Tensor::int64s(shape));
  const std::string name = graph_.name(x) + ".reshaped";
  return graph_.insert(anchor, "Reshape", {x, target}, {}, graph_.dtype(x), shape, name);
}

ValueId Packer::take(int anchor, ValueId x, ValueId index, std::string_view name) {
  Shape shape = graph_.shape(x);
  shape[0] = graph_.shape(index)[0];
  return graph_.insert(anchor, "stretto.TakeRows", {x, index}, {}, graph_.dtype(x),
                       std::move(shape), name);
}

ValueId Packer::packed_rows(int anchor, ValueId x, TokenUse use, TokenForm form, size_t rank) {
  const auto [at, fresh] = taken_.try_emplace({x, use, form, rank}, kNone);
  if (!fresh) return at->second;
  Shape shape(rank - graph_.shape(x).size(), 1);
  shape.insert(shape.end(), graph_.shape(x).begin(), graph_.shape(x).end());
  const int64_t count = use == TokenUse::kRows        ? batch_ * length_
                        : use == TokenUse::kPositions ? length_
                                                      : batch_;
  const Index which = use == TokenUse::kRows        ? kRows
                      : use == TokenUse::kPositions ? kPositions
                                                    : kSamples;
  Shape flat(shape.begin() + static_cast<int64_t>(leading(form)), shape.end());
  flat.insert(flat.begin(), count);
  const std::string name = graph_.name(x) + ".packed";
  const ValueId rows = take(anchor, reshaped(anchor, x, flat), index(anchor, which), name);
  return at->second = reshaped(anchor, rows, packed_shape(shape, form));
}

// Without the last reshape, for which the caller has a node.
ValueId Packer::padded(int anchor, ValueId packed, const Shape& shape, TokenForm form) {
  Shape flat(shape.begin() + static_cast<int64_t>(leading(form)), shape.end());
  flat.insert(flat.begin(), rows_);
  return take(anchor, reshaped(anchor, packed, flat), index(anchor, kPlaces),
              graph_.name(packed) + ".padded");
}

void Packer::pack(int n, const TokenNode& planned) {
  const Node node = graph_.node(n);
  Attributes attributes = node.attributes;
  std::vector<ValueId> inputs;
  const size_t rank = graph_.shape(node.outputs[0]).size();
  const std::string_view op = node.op->name;
  const bool attention = op == "stretto.Attention";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (planned.uses[i] == TokenUse::kPacked) {
      inputs.push_back(packed_.at(id));
    } else if (planned.uses[i] == TokenUse::kAsIs) {
      inputs.push_back(attention ? kNone : id);
    } else {
      // Indices of a Gather have the rank that they have, and the rows of a Linear its input's.
      const size_t own = op == "Gather" ? leading(planned.form) : rank;
      inputs.push_back(packed_rows(n, id, planned.uses[i], planned.form, own));
    }
  }
  std::vector<std::pair<DType, Shape>> outputs;
  for (ValueId id : node.outputs) {
    if (id == kNone) break;  // those that are there come first
    outputs.emplace_back(graph_.dtype(id), packed_shape(graph_.shape(id), planned.form));
  }
  if (attention) {
    inputs.push_back(index(n, kStarts));
    attributes.set("longest", length_);
  }
  std::string_view as = op;
  if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten" ||
      op == "Expand") {
    as = op == "Expand" ? op : "Reshape";
    attributes = {};
    inputs = {inputs[0], graph_.add_constant("shape", Tensor::int64s(outputs[0].second))};
  }
  const std::vector<ValueId> made =
      graph_.insert_many(n, as, std::move(inputs), attributes, outputs, node.name + ".packed");
  for (size_t i = 0; i < made.size(); ++i) {
    const ValueId id = node.outputs[i];
    const Shape shape = graph_.shape(id);
    packed_[id] = made[i];
    const ValueId back = padded(n, made[i], shape, planned.form);
    if (made.size() == 1) {
      const ValueId target = graph_.add_constant("shape", Tensor::int64s(shape));
      graph_.become(n, "Reshape", {back, target}, {});
    } else {
      const ValueId whole = reshaped(n, back, shape);
      packed_[whole] = made[i];
      graph_.replace(id, whole);
    }
  }
}

void run(ir::Graph& graph, PassContext& context) {
  Ragged* ragged = context.ragged();
  if (ragged == nullptr) return;
  const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                  [&](ValueId id) { return graph.value(id).name == ragged->mask; });
  STRETTO_CHECK(input != graph.inputs.end(), "no input {}", ragged->mask);
  const ValueId mask = *input;
  const Shape shape = *graph.value(mask).shape;
  STRETTO_CHECK(shape.size() == 2 && ragged->rows >= 0 && ragged->rows <= element_count(shape),
                "{} rows of {}", ragged->rows, shape_text(shape));
  Rewriter rewriter(graph);
  const std::vector<TokenNode> nodes = plan_ragged(rewriter, mask, *ragged);
  if (ragged->packed == 0) return;
  if (!context.allow("pack-rows", ragged->mask)) {
    ragged->packed = 0;
    return;
  }
  Packer packer(rewriter, mask, ragged->rows);
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].form != TokenForm::kNone) packer.pack(static_cast<int>(n), nodes[n]);
  }
  rewriter.finish();
}

}  // namespace

const Pass kRagged{.name = "ragged",
                   .summary = "work on real tokens instead of padded samples, where asked for",
                   .rules = kRules,
                   .run = run};

}  // namespace stretto::passes
