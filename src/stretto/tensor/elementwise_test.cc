#include "stretto/tensor/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace stretto {
namespace {

TEST(Elementwise, RowsStandWhereTheirOperationSays) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < element_rows().size(); ++i) {
    const ElementRow& row = element_rows()[i];
    EXPECT_EQ(static_cast<size_t>(row.op), i) << row.name;
    EXPECT_EQ(find_element(row.name), &row);
    EXPECT_LE(row.arguments(), 3) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands there twice";
  }
  EXPECT_EQ(find_element("Convolve"), nullptr);
}

TEST(Elementwise, ActivationsAreRowsOfOneOperand) {
  for (const Activation activation : activations()) {
    EXPECT_EQ(parse_activation(activation_name(activation)), activation);
  }
  EXPECT_EQ(parse_activation("relu6"), std::nullopt);
  int found = 0;
  for (const ElementRow& row : element_rows()) {
    const auto activation = activation_of(row.op);
    if (!activation) continue;
    ++found;
    EXPECT_EQ(row.operands, 1) << row.name;
    for (const double x : {-7.5, -1.0, 0.0, 0.3, 4.0}) {
      EXPECT_EQ(apply_activation(*activation, 0.2, 0.7, x), row.apply(x, 0, 0, 0.2, 0.7));
    }
  }
  EXPECT_EQ(found + 1, static_cast<int>(activations().size()));
  EXPECT_EQ(apply_activation(Activation::kNone, 1, 2, -3.5), -3.5);
}

TEST(Elementwise, ArgumentsAreOperandsAndThenNumbers) {
  const double clip[] = {5, -1, 2}, where[] = {0, 1, 2}, minus[] = {5, 3};
  EXPECT_EQ(find_element("Clip")->apply_to(clip), 2);
  EXPECT_EQ(find_element("Where")->apply_to(where), 2);
  EXPECT_EQ(find_element("Sub")->apply_to(minus), 2);
}

TEST(Elementwise, FormulasSayWhatIsTruth) {
  for (const ElementRow& row : element_rows()) {
    const std::set<std::string_view> truth{
        "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And",
        "Or",    "Xor",  "Not",     "IsNaN",       "ToBool"};
    EXPECT_EQ(row.truth, truth.contains(row.name)) << row.name;
  }
}

TEST(Elementwise, ActivationsKeepNan) {
  for (const Activation activation : activations()) {
    EXPECT_TRUE(std::isnan(apply_activation(activation, 0.2, 0.5, NAN)))
        << activation_name(activation);
  }
}

// Values from the definitions, computed by hand.
TEST(Elementwise, Formulas) {
  const auto value = [](std::string_view name, double a, double b = 0, double c = 0) {
    const double arguments[] = {a, b, c};
    return find_element(name)->apply_to(arguments);
  };
  EXPECT_EQ(value("Round", 2.5), 2);
  EXPECT_EQ(value("LeakyRelu", -2, 0.25), -0.5);
  EXPECT_EQ(value("HardSigmoid", 1, 0.2, 0.5), 0.7);
  EXPECT_EQ(value("HardSwish", 3), 3);
  EXPECT_NEAR(value("Gelu", 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value("GeluTanh", 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(value("Mish", 1), 0.8650983882673103, 1e-15);
  EXPECT_NEAR(value("Softplus", 800), 800, 1e-12);
  EXPECT_NEAR(value("Elu", -1, 2), 2 * (std::exp(-1.0) - 1), 1e-15);
  EXPECT_TRUE(std::isnan(value("Max", 1, NAN)));
  EXPECT_EQ(value("Xor", 2, 3), 0);
  EXPECT_EQ(value("Xor", 0, NAN), 1);
  EXPECT_EQ(value("IsNaN", NAN), 1);
  EXPECT_EQ(value("IsNaN", -INFINITY), 0);
  EXPECT_EQ(value("ToBool", NAN), 1);
  EXPECT_TRUE(std::isnan(value("Min", NAN, 1)));
}

}  // namespace
}  // namespace stretto
