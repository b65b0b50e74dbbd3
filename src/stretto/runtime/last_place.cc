#include "stretto/runtime/last_place.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "stretto/ir/operator.h"

namespace stretto::runtime {
namespace {

// Operators of which a place of the result needs the same place of every input, or an input that
// has only one.
constexpr std::string_view kOfPlaces[] = {"Add", "Cast", "Clip", "Div",  "Identity", "Max",
                                          "Min", "Mul",  "Sub",  "Tanh", "Where"};

class Narrowing {
 public:
  explicit Narrowing(ir::Graph& graph) : graph_(graph), links_(graph) {}

  // [batch, 1, ...] of [batch, places, ...]; nothing when it cannot be had for less.
  std::optional<ir::ValueId> of(ir::ValueId id) {
    const int n = links_.producer[static_cast<size_t>(id)];
    if (n < 0 || shape(id).size() != 3) return std::nullopt;
    const ir::Node node = graph_.nodes[static_cast<size_t>(n)];
    if (node.op->name == "MatMul") return product(id, node);
    if (std::find(std::begin(kOfPlaces), std::end(kOfPlaces), node.op->name) ==
        std::end(kOfPlaces)) {
      return std::nullopt;
    }
    std::vector<ir::ValueId> inputs = node.inputs;
    for (ir::ValueId& input : inputs) {
      // Dimensions are matched from the last one on.
      if (input == ir::kNone || shape(input).size() < 2) continue;
      if (shape(input)[shape(input).size() - 2] == 1) continue;
      const auto narrow = of(input);
      if (!narrow) return std::nullopt;
      input = *narrow;
    }
    return make(id, node, std::move(inputs));
  }

 private:
  const Shape& shape(ir::ValueId id) const { return *graph_.value(id).shape; }

  std::optional<ir::ValueId> product(ir::ValueId id, const ir::Node& node) {
    const ir::ValueId rows = node.inputs[0], matrix = node.inputs[1];
    if (shape(rows).size() != 3 || shape(matrix).size() != 2) return std::nullopt;
    const auto number = [&](int64_t value) {
      const int64_t values[] = {value};
      return graph_.add_constant(node.name + "/last", Tensor::int64s(values));
    };
    const int64_t places = shape(rows)[1];
    Shape one = shape(rows);
    one[1] = 1;
    std::vector<ir::ValueId> inputs{rows, number(places - 1), number(places), number(1)};
    const ir::ValueId last = graph_.add_value(node.name + "/last", graph_.value(rows).dtype, one);
    graph_.add_node("Slice", std::move(inputs), {last}, {}, node.name + "/last");
    return make(id, node, {last, matrix});
  }

  ir::ValueId make(ir::ValueId of, const ir::Node& node, std::vector<ir::ValueId> inputs) {
    Shape one = shape(of);
    one[1] = 1;
    const ir::Value& value = graph_.value(of);
    const ir::ValueId made = graph_.add_value(value.name + "/last", value.dtype, std::move(one));
    graph_.add_node(node.op->name, std::move(inputs), {made}, node.attributes, node.name + "/last");
    return made;
  }

  ir::Graph& graph_;
  const ir::Links links_;
};

}  // namespace

bool keep_last_place(ir::Graph& graph, size_t output) {
  const ir::ValueId all = graph.outputs[output];
  ir::Graph changed = graph;
  const auto last = Narrowing(changed).of(all);
  if (!last) return false;
  std::swap(changed.value(all).name, changed.value(*last).name);
  changed.outputs[output] = *last;
  ir::sort(changed);
  ir::remove_dead(changed);
  ir::infer(changed);
  graph = std::move(changed);
  return true;
}

}  // namespace stretto::runtime
