// Convolutions and pools over rows become those over images of one row: only images can be in
// channel blocks, and most kernels work on blocks. The reshapes around them are views; those
// between two of them, past elementwise nodes and concatenations, go.
#include <string_view>
#include <unordered_map>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"row-conv", "row-pool", "row-elementwise", "row-concat"};

Shape widened(const Shape& row) { return {row[0], row[1], 1, row[2]}; }

struct Widening {
  Rewriter& graph;
  PassContext& context;
  std::unordered_map<ValueId, ValueId> images;  // that were inserted for a row

  bool is_row(ValueId id) const {
    return graph.shape(id).size() == 3 && graph.dtype(id) == DType::kFloat32;
  }

  // The image that `id` is a reshape of; kNone if there is none.
  ValueId known_image(ValueId id) const {
    if (const auto found = images.find(id); found != images.end()) return found->second;
    const int reshape = graph.maker(id, "Reshape");
    if (reshape < 0 || !is_row(id)) return kNone;
    const ValueId x = graph.node(reshape).inputs[0];
    return graph.shape(x) == widened(graph.shape(id)) ? x : kNone;
  }

  ValueId image(int n, ValueId id) {
    if (const ValueId known = known_image(id); known != kNone) return known;
    const Shape shape = widened(graph.shape(id));
    const ValueId made =
        graph.insert(n, "Reshape", {id, graph.add_constant("image", Tensor::int64s(shape))}, {},
                     DType::kFloat32, shape, graph.name(id) + ".image");
    return images[id] = made;
  }

  // Node n becomes `op` over images and a reshape to the row that it was.
  void become(int n, std::vector<ValueId> inputs, Attributes attributes) {
    const Node node = graph.node(n);
    const Shape row = graph.shape(node.outputs[0]);
    const ValueId y = graph.insert(n, node.op->name, std::move(inputs), std::move(attributes),
                                   DType::kFloat32, widened(row), node.name);
    graph.become(n, "Reshape", {y, graph.add_constant("row", Tensor::int64s(row))}, {},
                 node.name + ".row");
  }

  // Attributes of a window along a row, for an image: one pixel high.
  static Attributes window(Attributes attributes) {
    for (const char* name : {"kernel_shape", "strides", "dilations"}) {
      const auto given = attributes.integers(name, {});
      if (given.size() == 1) attributes.set(name, std::vector<int64_t>{1, given[0]});
    }
    const auto extra = attributes.integers("output_padding", {});  // of a transposed convolution
    if (extra.size() == 1) attributes.set("output_padding", std::vector<int64_t>{0, extra[0]});
    const auto pads = attributes.integers("pads", {});
    if (pads.size() == 2) attributes.set("pads", std::vector<int64_t>{0, pads[0], 0, pads[1]});
    return attributes;
  }

  void convolution(int n) {
    const Node node = graph.node(n);
    const Tensor* found = graph.constant(node.inputs[1]);
    if (!is_row(node.inputs[0]) || found == nullptr) return;
    if (node.attributes.has("output_shape")) return;  // no kernel takes it
    // A row of one element is a vector, which lowering multiplies as such.
    if (graph.shape(node.inputs[0])[2] == 1 && graph.shape(node.outputs[0])[2] == 1) return;
    const Tensor weight = *found;
    if (!context.allow("row-conv", node.name)) return;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = image(n, inputs[0]);
    inputs[1] = graph.add_constant(graph.name(inputs[1]), weight.reshaped(widened(weight.shape())));
    if (inputs.size() > 3 && inputs[3] != kNone) inputs[3] = image(n, inputs[3]);  // the residual
    become(n, std::move(inputs), window(node.attributes));
  }

  void pool(int n) {
    const Node node = graph.node(n);
    if (!is_row(node.inputs[0]) || node.outputs.size() > 1) return;
    if (known_image(node.inputs[0]) == kNone || !context.allow("row-pool", node.name)) return;
    become(n, {image(n, node.inputs[0])}, window(node.attributes));
  }

  // Whether every input that is not constant is known as an image; one of them has to be.
  bool all_images(const Node& node, bool same_shape) const {
    bool any = false;
    for (ValueId id : node.inputs) {
      if (id == kNone || graph.constant(id) != nullptr) continue;
      if (known_image(id) == kNone) return false;
      if (same_shape && graph.shape(id) != graph.shape(node.outputs[0])) return false;
      any = true;
    }
    return any;
  }

  void elementwise(int n) {
    const Node node = graph.node(n);
    if (node.outputs.size() != 1 || !is_row(node.outputs[0]) || !all_images(node, true)) return;
    if (!match_elementwise(graph, n).has_value()) return;
    if (!context.allow("row-elementwise", node.name)) return;
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& id : inputs) {
      if (id == kNone) continue;
      const Tensor* constant = graph.constant(id);
      if (constant == nullptr) {
        id = known_image(id);
      } else if (constant->rank() > 1) {  // of one dimension it lies along the row in both
        Shape shape = constant->shape();
        shape.insert(shape.end() - 1, 1);
        id = graph.add_constant(graph.name(id), constant->reshaped(shape));
      }
    }
    become(n, std::move(inputs), node.attributes);
  }

  void concatenation(int n) {
    const Node node = graph.node(n);
    if (!is_row(node.outputs[0]) || !all_images(node, false)) return;
    for (ValueId id : node.inputs) {
      if (graph.constant(id) != nullptr) return;
    }
    if (!context.allow("row-concat", node.name)) return;
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& id : inputs) id = known_image(id);
    Attributes attributes = node.attributes;
    const int64_t axis = normalize_axis(attributes.integer("axis", 0), 3, "axis");
    attributes.set("axis", axis == 2 ? int64_t{3} : axis);
    become(n, std::move(inputs), std::move(attributes));
  }
};

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  Widening widening{rewriter, context, {}};
  const int count = rewriter.count();  // what is inserted is wide already
  for (int n = 0; n < count; ++n) {
    if (!rewriter.alive(n)) continue;
    const std::string_view op = rewriter.node(n).op->name;
    if (op == "stretto.Conv" || op == "stretto.ConvTranspose") {
      widening.convolution(n);
    } else if (op == "MaxPool" || op == "AveragePool" || op == "GlobalAveragePool" ||
               op == "GlobalMaxPool") {
      widening.pool(n);
    } else if (op == "Concat") {
      widening.concatenation(n);
    } else {
      widening.elementwise(n);
    }
  }
  rewriter.finish();
}

}  // namespace

const Pass kWidenRows{.name = "widen-rows",
                      .summary = "1-D convolutions and pools as those over images of one row",
                      .rules = kRules,
                      .run = run};

}  // namespace stretto::passes
