// Einsum: sums of products over named axes, with ellipsis and implicit output.
#include "stretto/ir/ops/einsum.h"

#include <algorithm>

#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kTypes = kRealTypes | kIndexTypes;
constexpr Port kInputs[] = {{"Inputs", kTypes, Arity::kVariadic, 'T'}};
constexpr Port kOutputs[] = {{"Output", kTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"equation", AttributeKind::kString, true}};

// Splits "ij,jk->ik" at commas and the arrow, blanks removed.
std::vector<std::string> split_equation(const std::string& equation, bool& has_output) {
  std::string text = equation;
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  has_output = arrow != text.npos;
  std::vector<std::string> parts;
  std::string terms = text.substr(0, arrow);
  for (size_t at = 0;;) {
    const size_t comma = terms.find(',', at);
    parts.push_back(terms.substr(at, comma - at));
    if (comma == terms.npos) break;
    at = comma + 1;
  }
  if (has_output) parts.push_back(text.substr(arrow + 2));
  return parts;
}

// "..." becomes `rank` digits, the last one '0'.
std::string expand_ellipsis(std::string term, int64_t rank) {
  const size_t dots = term.find("...");
  std::string digits;
  for (int64_t i = rank; i-- > 0;) digits += static_cast<char>('0' + i);
  if (dots != term.npos) term.replace(dots, 3, digits);
  for (char label : term) {
    if (!std::isalpha(static_cast<unsigned char>(label)) && digits.find(label) == digits.npos) {
      throw_invalid("equation: unexpected '{}'", label);
    }
  }
  return term;
}

}  // namespace

EinsumPlan plan_einsum(const std::string& equation, const std::vector<Shape>& shapes) {
  bool has_output = false;
  std::vector<std::string> parts = split_equation(equation, has_output);
  if (parts.size() - (has_output ? 1 : 0) != shapes.size()) {
    throw_invalid("equation: '{}' has {} terms for {} inputs", equation,
                  parts.size() - (has_output ? 1 : 0), shapes.size());
  }
  EinsumPlan plan;
  int64_t ellipsis = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool dots = parts[i].find("...") != std::string::npos;
    const auto named = static_cast<int64_t>(parts[i].size()) - (dots ? 3 : 0);
    const int64_t rest = static_cast<int64_t>(shapes[i].size()) - named;
    if (rest < 0 || (!dots && rest != 0) || rest > 9) {
      throw_invalid("equation: term '{}' does not fit input {} of shape {}", parts[i], i,
                    shape_text(shapes[i]));
    }
    if (dots) ellipsis = std::max(ellipsis, rest);
    plan.terms.push_back(expand_ellipsis(parts[i], rest));
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      int64_t& size = plan.size.try_emplace(plan.terms[i][axis], 1).first->second;
      const int64_t dim = shapes[i][axis];
      if (size != 1 && dim != 1 && size != dim) {
        throw_invalid("equation: axis '{}' has sizes {} and {}", plan.terms[i][axis], size, dim);
      }
      if (dim != 1) size = dim;
    }
  }
  if (has_output) {
    plan.output = expand_ellipsis(parts.back(), ellipsis);
  } else {  // the ellipsis, then every letter that occurs once, in order
    plan.output = expand_ellipsis("...", ellipsis);
    for (const auto& [label, size] : plan.size) {
      int64_t uses = 0;
      for (const std::string& term : plan.terms)
        uses += std::count(term.begin(), term.end(), label);
      if (uses == 1 && std::isalpha(static_cast<unsigned char>(label))) plan.output += label;
    }
  }
  for (char label : plan.output) {
    if (plan.size.count(label) == 0 ||
        std::count(plan.output.begin(), plan.output.end(), label) != 1) {
      throw_invalid("equation: output axis '{}' must occur in an input, and once in the output",
                    label);
    }
  }
  for (const auto& [label, size] : plan.size) {
    if (plan.output.find(label) == std::string::npos) plan.summed += label;
  }
  return plan;
}

namespace {

Shape sizes_of(const EinsumPlan& plan, const std::string& labels) {
  Shape shape;
  for (char label : labels) shape.push_back(plan.size.at(label));
  return shape;
}

void infer(Inference& c) {
  std::vector<Shape> shapes;
  for (int i = 0; i < c.input_count(); ++i) shapes.push_back(c.shape(i));
  const EinsumPlan plan = plan_einsum(c.attributes().text("equation", ""), shapes);
  c.set_output(0, c.dtype(0), sizes_of(plan, plan.output));
}

// Strides of one input along the given labels; a label may occur twice (a diagonal) or not at all.
Strides strides_along(const std::string& term, const Shape& shape, const std::string& labels) {
  const Strides dense = row_major_strides(shape);
  Strides strides(labels.size(), 0);
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t axis = 0; axis < term.size(); ++axis) {
      if (term[axis] == labels[i] && shape[axis] != 1) strides[i] += dense[axis];
    }
  }
  return strides;
}

void evaluate(Evaluation& c) {
  std::vector<Shape> shapes;
  for (const Tensor& input : c.inputs) shapes.push_back(input.shape());
  const EinsumPlan plan = plan_einsum(c.attributes.text("equation", ""), shapes);
  std::vector<Strides> outer, inner;
  for (size_t i = 0; i < shapes.size(); ++i) {
    outer.push_back(strides_along(plan.terms[i], shapes[i], plan.output));
    inner.push_back(strides_along(plan.terms[i], shapes[i], plan.summed));
  }
  const StridedLoop results(sizes_of(plan, plan.output), outer);
  const StridedLoop sums(sizes_of(plan, plan.summed), inner);
  with_type<kTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    T* y = data_of<T>(c.make_output(0));
    std::vector<const T*> x;
    for (const Tensor& input : c.inputs) x.push_back(data_of<T>(input));
    const auto element = [&](const int64_t* first) {
      decltype(wrapping(Computed<T>{})) sum{};
      sums.rows(0, sums.count(),
                [&](int64_t, int64_t length, const int64_t* offsets, const int64_t* steps) {
                  for (int64_t k = 0; k < length; ++k) {
                    decltype(sum) product = 1;
                    for (size_t j = 0; j < x.size(); ++j) {
                      product *= wrapping(
                          static_cast<Computed<T>>(x[j][first[j] + offsets[j] + k * steps[j]]));
                    }
                    sum += product;
                  }
                });
      return static_cast<T>(sum);
    };
    parallel(c.team, results.count(), 64, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> first(x.size());
      results.rows(begin, end,
                   [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
                     for (int64_t i = 0; i < length; ++i) {
                       for (size_t j = 0; j < x.size(); ++j) first[j] = offsets[j] + i * steps[j];
                       y[at + i] = element(first.data());
                     }
                   });
    });
  });
}

double flops(const Graph& graph, const Node& node) {
  std::vector<Shape> shapes;
  for (ValueId id : node.inputs) shapes.push_back(*graph.value(id).shape);
  double product = shapes.size() > 1 ? 2 : 0;
  for (const auto& [label, size] : plan_einsum(node.attributes.text("equation", ""), shapes).size) {
    product *= static_cast<double>(size);
  }
  return product;
}

}  // namespace

const Operator kEinsum{.name = "Einsum",
                       .inputs = kInputs,
                       .outputs = kOutputs,
                       .attributes = kAttributes,
                       .infer = infer,
                       .evaluate = evaluate,
                       .flops = flops};

}  // namespace stretto::ir::ops
