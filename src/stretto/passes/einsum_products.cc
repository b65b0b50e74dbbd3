// Einsum as sums, transposes and products of matrices. Operands are multiplied from left to right;
// an axis is summed as soon as nothing that follows names it.
#include <algorithm>
#include <string>
#include <vector>

#include "stretto/ir/operator.h"
#include "stretto/ir/ops/einsum.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"einsum"};

bool has(const std::string& labels, char label) { return labels.find(label) != labels.npos; }

struct Operand {
  ValueId id;
  std::string labels;
};

// One node that is being rewritten.
class Einsum {
 public:
  Einsum(Rewriter& graph, int n, const ir::ops::EinsumPlan& plan)
      : graph_(graph), n_(n), name_(graph.node(n).name), plan_(plan) {}

  void rewrite() {
    const std::vector<ValueId> inputs = graph_.node(n_).inputs;
    std::vector<Operand> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back(stretched({inputs[i], plan_.terms[i]}));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      std::string others = plan_.output;
      for (size_t j = 0; j < operands.size(); ++j) {
        if (j != i) others += operands[j].labels;
      }
      operands[i] = summed(operands[i], others);
    }
    Operand so_far = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      std::string needed = plan_.output;
      for (size_t j = i + 1; j < operands.size(); ++j) needed += operands[j].labels;
      so_far = product(so_far, operands[i], needed);
    }
    graph_.become(n_, "Identity", {ordered(so_far, plan_.output).id}, {});
  }

 private:
  Shape sizes(const std::string& labels) const {
    Shape shape;
    for (const char label : labels) shape.push_back(plan_.size.at(label));
    return shape;
  }

  int64_t count(const std::string& labels) const { return element_count(sizes(labels)); }

  ValueId insert(std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
                 Shape shape) {
    return graph_.insert(n_, op, std::move(inputs), std::move(attributes), DType::kFloat32,
                         std::move(shape), name_);
  }

  ValueId reshaped(ValueId x, const Shape& to) {
    if (graph_.shape(x) == to) return x;
    return insert("Reshape", {x, graph_.add_constant("shape", Tensor::int64s(to))}, {}, to);
  }

  // Without the axes of size 1 that stand for any size.
  Operand stretched(const Operand& x) {
    Operand kept{x.id, ""};
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      const char label = x.labels[axis];
      if (graph_.shape(x.id)[axis] == plan_.size.at(label)) kept.labels += label;
    }
    kept.id = reshaped(x.id, sizes(kept.labels));
    return kept;
  }

  // Without the axes that nothing else names.
  Operand summed(const Operand& x, const std::string& others) {
    Operand kept{x.id, ""};
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (has(others, x.labels[axis])) {
        kept.labels += x.labels[axis];
      } else {
        axes.push_back(static_cast<int64_t>(axis));
      }
    }
    if (axes.empty()) return x;
    Attributes attributes;
    attributes.set("keepdims", int64_t{0});
    kept.id = insert("ReduceSum", {x.id, graph_.add_constant("axes", Tensor::int64s(axes))},
                     std::move(attributes), sizes(kept.labels));
    return kept;
  }

  Operand ordered(const Operand& x, const std::string& labels) {
    if (x.labels == labels) return x;
    std::vector<int64_t> order;
    for (const char label : labels) order.push_back(static_cast<int64_t>(x.labels.find(label)));
    Attributes attributes;
    attributes.set("perm", order);
    return {insert("Transpose", {x.id}, std::move(attributes), sizes(labels)), labels};
  }

  // In the order of the output as far as it names them.
  std::string in_order(std::string labels) const {
    std::stable_sort(labels.begin(), labels.end(),
                     [&](char a, char b) { return plan_.output.find(a) < plan_.output.find(b); });
    return labels;
  }

  Operand product(Operand a, Operand b, const std::string& needed) {
    std::string both, over, of_a, of_b;
    for (const char label : a.labels) {
      if (!has(b.labels, label)) {
        of_a += label;
      } else {
        (has(needed, label) ? both : over) += label;
      }
    }
    for (const char label : b.labels) {
      if (!has(a.labels, label)) of_b += label;
    }
    both = in_order(both);
    of_a = in_order(of_a);
    of_b = in_order(of_b);
    if (over.empty()) return outer_product(a, b, in_order(both + of_a + of_b));
    if (both + of_b + of_a == plan_.output) {  // no transpose afterwards
      std::swap(a, b);
      std::swap(of_a, of_b);
    }
    const int64_t rows = count(of_a), columns = count(of_b), depth = count(over);
    Shape batch;
    if (!both.empty()) batch.push_back(count(both));
    const auto matrices = [&](int64_t r, int64_t c) {
      Shape shape = batch;
      shape.insert(shape.end(), {r, c});
      return shape;
    };
    const ValueId left = reshaped(ordered(a, both + of_a + over).id, matrices(rows, depth));
    const ValueId right = reshaped(ordered(b, both + over + of_b).id, matrices(depth, columns));
    const ValueId made = insert("MatMul", {left, right}, {}, matrices(rows, columns));
    const std::string labels = both + of_a + of_b;
    return {reshaped(made, sizes(labels)), labels};
  }

  Operand outer_product(const Operand& a, const Operand& b, const std::string& labels) {
    const auto spread = [&](const Operand& x) {
      std::string own;
      Shape shape;
      for (const char label : labels) {
        if (has(x.labels, label)) own += label;
        shape.push_back(has(x.labels, label) ? plan_.size.at(label) : 1);
      }
      return reshaped(ordered(x, own).id, shape);
    };
    const ValueId left = spread(a), right = spread(b);
    return {insert("Mul", {left, right}, {}, sizes(labels)), labels};
  }

  Rewriter& graph_;
  const int n_;
  const std::string name_;
  const ir::ops::EinsumPlan& plan_;
};

void try_one(Rewriter& graph, int n, PassContext& context) {
  const Node& node = graph.node(n);
  std::vector<Shape> shapes;
  for (const ValueId id : node.inputs) {
    if (graph.dtype(id) != DType::kFloat32 || element_count(graph.shape(id)) == 0) return;
    shapes.push_back(graph.shape(id));
  }
  const ir::ops::EinsumPlan plan =
      ir::ops::plan_einsum(node.attributes.text("equation", ""), shapes);
  for (const std::string& term : plan.terms) {  // diagonals
    for (const char label : term) {
      if (std::count(term.begin(), term.end(), label) > 1) return;
    }
  }
  if (context.allow("einsum", node.name)) Einsum(graph, n, plan).rewrite();
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  const int count = rewriter.count();
  for (int n = 0; n < count; ++n) {
    if (rewriter.is(n, "Einsum")) try_one(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kEinsumProducts{.name = "einsum-products",
                           .summary = "sums of products over named axes as products of matrices",
                           .rules = kRules,
                           .run = run};

}  // namespace stretto::passes
