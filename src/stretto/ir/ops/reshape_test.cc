#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

Shape shape_of(std::string_view op, Shape from, std::vector<int64_t> argument,
               AttributeList attributes = {}) {
  return run(op, {ramp(std::move(from)), ints(std::move(argument))}, attributes).shape();
}

TEST(Reshape, CopiesAndInfers) {
  EXPECT_EQ(shape_of("Reshape", {2, 3, 4}, {0, -1}), (Shape{2, 12}));
  EXPECT_EQ(shape_of("Reshape", {2, 3}, {3, 2}), (Shape{3, 2}));
  EXPECT_EQ(shape_of("Reshape", {1}, {}), Shape{});
  EXPECT_EQ(shape_of("Reshape", {0, 3}, {3, 0}, {{"allowzero", int64_t{1}}}), (Shape{3, 0}));
  EXPECT_NE(error_of("Reshape", {ramp({6}), ints({-1, -1})}).find("at most one -1"),
            std::string::npos);
  EXPECT_NE(error_of("Reshape", {ramp({6}), ints({4, -1})}).find("cannot fill"), std::string::npos);
  EXPECT_NE(error_of("Reshape", {ramp({6}), ints({5})}).find("has 6 elements"), std::string::npos);
  EXPECT_NE(error_of("Reshape", {ramp({6}), ints({6, 0})}).find("position 1"), std::string::npos);
}

TEST(Reshape, ShapeMustBeKnown) {
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, Shape{4});
  const ValueId s = g.add_value("s", DType::kInt64, Shape{2});
  g.inputs = {x, s};
  g.outputs = {g.add_value("y")};
  g.add_node("Reshape", {x, s}, g.outputs);
  EXPECT_THROW(infer(g), Unsupported);
}

TEST(Flatten, SplitsAtTheAxis) {
  EXPECT_EQ(run("Flatten", {ramp({2, 3, 4})}).shape(), (Shape{2, 12}));
  EXPECT_EQ(run("Flatten", {ramp({2, 3, 4})}, {{"axis", int64_t{0}}}).shape(), (Shape{1, 24}));
  EXPECT_EQ(run("Flatten", {ramp({2, 3, 4})}, {{"axis", int64_t{3}}}).shape(), (Shape{24, 1}));
  EXPECT_EQ(run("Flatten", {ramp({2, 3, 4})}, {{"axis", int64_t{-1}}}).shape(), (Shape{6, 4}));
  EXPECT_NE(error_of("Flatten", {ramp({2})}, {{"axis", int64_t{2}}}).find("axis"),
            std::string::npos);
}

TEST(Squeeze, NamedAndAllAxes) {
  EXPECT_EQ(shape_of("Squeeze", {1, 3, 1}, {-1}), (Shape{1, 3}));
  EXPECT_EQ(run("Squeeze", {ramp({1, 3, 1})}).shape(), (Shape{3}));
  EXPECT_NE(error_of("Squeeze", {ramp({1, 3}), ints({1})}).find("is not 1"), std::string::npos);
  EXPECT_EQ(shape_of("Unsqueeze", {3, 4}, {0, -1}), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(shape_of("Unsqueeze", {}, {0}), (Shape{1}));
  EXPECT_NE(error_of("Unsqueeze", {ramp({3}), ints({0, -3})}).find("named twice"),
            std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
