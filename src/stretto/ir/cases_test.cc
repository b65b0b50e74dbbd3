// Every operator's reference, over the cases it draws of itself.
#include "stretto/ir/cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "stretto/base/error.h"
#include "stretto/ir/case_options.h"
#include "stretto/ir/cases/table.h"
#include "stretto/ir/interpreter.h"

namespace stretto::ir {
namespace {

// What is wrong with one reference on one case; "" when nothing is.
std::string fault(const Case& c) {
  const Node& node = c.node();
  std::vector<Tensor> arguments;
  for (size_t i = 0, fed = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNone) {
      arguments.emplace_back();
    } else {
      const Value& value = c.graph.value(id);
      arguments.push_back(value.is_constant() ? value.constant : c.inputs[fed++]);
    }
  }
  try {
    // Shapes are compared by evaluate() itself.
    const std::vector<Tensor> narrow = evaluate(c.graph, node, arguments);
    for (Tensor& tensor : arguments) {
      if (tensor.dtype() == DType::kFloat32) tensor = tensor.converted(DType::kFloat64);
    }
    const std::vector<Tensor> wide = evaluate(c.graph, node, arguments);
    for (size_t i = 0; i < narrow.size(); ++i) {
      const Value& declared = c.graph.value(node.outputs[i]);
      if (narrow[i].dtype() != declared.dtype) {
        return fmt::format("output {} is {}, inference said {}", i, dtype_name(narrow[i].dtype()),
                           dtype_name(declared.dtype));
      }
      const std::vector<double> a = narrow[i].as_doubles(), b = wide[i].as_doubles();
      for (size_t j = 0; j < a.size(); ++j) {
        if (a[j] == b[j] || (std::isnan(a[j]) && std::isnan(b[j]))) continue;
        // Both compute in double: float32 adds one rounding, 6e-8, and overflows earlier.
        if (std::fabs(b[j]) > 3.4e38 && std::isinf(a[j]) && (a[j] > 0) == (b[j] > 0)) continue;
        if (std::fabs(a[j] - b[j]) <= 1e-6 * std::fabs(b[j]) + 1e-6) continue;
        return fmt::format("output {} [{}] is {} in float32 and {} in float64", i, j, a[j], b[j]);
      }
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Output types must follow the schema's type variables.
std::string type_fault(const Case& c) {
  const Node& node = c.node();
  const auto port_of = [](std::span<const Port> ports, size_t i) {
    return ports[std::min(i, ports.size() - 1)];
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Port output = port_of(node.op->outputs, i);
    const DType dtype = c.graph.value(node.outputs[i]).dtype;
    if ((output.types & type_bit(dtype)) == 0) {
      return fmt::format("output {} may not be {}", i, dtype_name(dtype));
    }
    for (size_t j = 0; j < node.inputs.size() && output.type_variable != '\0'; ++j) {
      const Port input = port_of(node.op->inputs, j);
      if (node.inputs[j] == kNone || input.type_variable != output.type_variable) continue;
      if (c.graph.value(node.inputs[j]).dtype != dtype) {
        return fmt::format("output {} is {}, input {} of the same type variable is {}", i,
                           dtype_name(dtype), j, dtype_name(c.graph.value(node.inputs[j]).dtype));
      }
    }
  }
  return "";
}

class EveryOperator : public testing::TestWithParam<const Operator*> {};

TEST_P(EveryOperator, DoesWhatItsShapeAndTypeRulesSay) {
  const CaseOptions options = case_options(60);
  const std::vector<Case> cases = draw_cases(*GetParam(), options.seed, options.count);
  // Fewer: the description draws mostly what inference refuses.
  EXPECT_EQ(static_cast<int>(cases.size()), options.count);
  for (const Case& c : cases) {
    const auto wrong = [](const Case& one) { return fault(one) + type_fault(one); };
    if (wrong(c).empty()) continue;
    const Case small = minimised(c, [&](const Case& one) { return !wrong(one).empty(); });
    FAIL() << wrong(small) << "\nseed " << options.seed << ", smallest case:\n" << case_text(small);
  }
}

TEST_P(EveryOperator, DescribesAllOfItsSchema) {
  const Operator& op = *GetParam();
  std::set<std::string> attributes;
  std::set<size_t> present, missing;
  std::set<DType> types;
  for (const Case& c : draw_cases(op, 1, 150)) {
    for (const auto& [name, value] : c.node().attributes.all()) attributes.insert(name);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto& inputs = c.node().inputs;
      (i < inputs.size() && inputs[i] != kNone ? present : missing).insert(i);
    }
    for (const Tensor& tensor : c.inputs) types.insert(tensor.dtype());
  }
  for (const AttributeSpec& spec : op.attributes) {
    EXPECT_TRUE(attributes.contains(std::string(spec.name))) << spec.name << " is never drawn";
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    EXPECT_TRUE(present.contains(i)) << op.inputs[i].name << " is always absent";
    if (op.inputs[i].arity == Arity::kOptional) {
      EXPECT_TRUE(missing.contains(i)) << op.inputs[i].name << " is never absent";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOperator, testing::ValuesIn(operators()),
                         [](const auto& info) {
                           std::string name(info.param->name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Cases, AreDescribedOncePerOperator) {
  std::multiset<std::string_view> described, known;
  for (const cases::Row& row : cases::rows()) described.insert(row.op);
  for (const Operator* op : operators()) known.insert(op->name);
  EXPECT_EQ(described, known);
}

TEST(Cases, AreTheSameEveryTime) {
  const Operator& conv = *find_operator("stretto.Conv");
  const auto a = draw_cases(conv, 7, 10), b = draw_cases(conv, 7, 10), c = draw_cases(conv, 8, 10);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(case_text(a[i]), case_text(b[i]));
  EXPECT_NE(case_text(a[0]), case_text(c[0]));
  EXPECT_NE(case_text(a[0]), case_text(a[1]));
}

TEST(Cases, SurviveTheirText) {
  for (const Operator* op : operators()) {
    for (const Case& c : draw_cases(*op, 3, 4)) {
      const std::string text = case_text(c);
      const Case again = parse_case(text);
      EXPECT_EQ(case_text(again), text);
      EXPECT_EQ(fault(again), fault(c));
    }
  }
  EXPECT_THROW(parse_case("graph g\ninput x: float32[1]\ny = Relu(x)\noutput y\n"),
               InvalidArgument);
}

TEST(Cases, ShrinkToTheSmallestThatFails) {
  // "Fails" when the kernel is 3 wide and there are two images at least.
  const auto fails = [](const Case& c) {
    const Shape& x = *c.graph.value(c.node().inputs[0]).shape;
    return x[0] >= 2 && c.graph.value(c.node().inputs[1]).shape->back() == 3;
  };
  for (const Case& c : draw_cases(*find_operator("stretto.Conv"), 13, 60)) {
    if (!fails(c)) continue;
    const Case small = minimised(c, fails);
    EXPECT_TRUE(fails(small));
    EXPECT_EQ(small.inputs[0].dim(0), 2);
    EXPECT_EQ(small.inputs[0].dim(1), 1);
    EXPECT_EQ(small.graph.value(small.node().inputs[1]).shape->at(0), 1);
    EXPECT_FALSE(small.node().attributes.has("strides"));
    EXPECT_FALSE(small.node().attributes.has("activation"));
    EXPECT_EQ(small.node().inputs.size(), 2u);
    return;
  }
  FAIL() << "no case to shrink";
}

}  // namespace
}  // namespace stretto::ir
