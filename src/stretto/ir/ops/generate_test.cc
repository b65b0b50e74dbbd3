#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

TEST(Generate, ConstantsFoldDuringInference) {
  OneNode one("Constant", {}, {{"value", ramp({3000})}}, 1);
  infer(one.graph);
  EXPECT_TRUE(one.graph.value(one.graph.outputs[0]).is_constant());
  EXPECT_EQ(run("ConstantOfShape", {ints({2, 2})}).dtype(), DType::kFloat32);
  expect_values(run("ConstantOfShape", {ints({2})}, {{"value", ints({7})}}), {2}, {7, 7});
  expect_values(run("ConstantOfShape", {ints({0})}), {0}, {});
}

TEST(Generate, RangeUpDownAndNever) {
  const auto range = [](int64_t a, int64_t b, int64_t d) {
    return run("Range", {ints({}, {a}), ints({}, {b}), ints({}, {d})}).as_int64s();
  };
  EXPECT_EQ(range(3, 10, 3), (std::vector<int64_t>{3, 6, 9}));
  EXPECT_EQ(range(2, -1, -1), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_TRUE(range(2, 0, 1).empty());
  expect_values(run("Range", {floats({}, {1}), floats({}, {2}), floats({}, {0.25})}), {4},
                {1, 1.25, 1.5, 1.75});
  EXPECT_NE(error_of("Range", {ints({}, {0}), ints({}, {1}), ints({}, {0})}).find("delta"),
            std::string::npos);
}

TEST(Generate, ShapeAndSize) {
  expect_values(run("Shape", {ramp({2, 0, 5})}), {3}, {2, 0, 5});
  expect_values(run("Shape", {ramp({2, 3, 5})}, {{"start", int64_t{-2}}, {"end", int64_t{9}}}), {2},
                {3, 5});
  expect_values(run("Size", {ramp({2, 3})}), {}, {6});
}

TEST(Generate, OneHot) {
  const Tensor values = floats({2}, {-1, 1});
  expect_values(run("OneHot", {ints({1, -1, 5}), ints({}, {3}), values}), {3, 3},
                {-1, 1, -1, -1, -1, 1, -1, -1, -1});
  expect_values(run("OneHot", {ints({1, 0}), ints({1}, {2}), values}, {{"axis", int64_t{0}}}),
                {2, 2}, {-1, 1, 1, -1});
  EXPECT_NE(error_of("OneHot", {ints({1}), ints({}, {0}), values}).find("depth"),
            std::string::npos);
}

TEST(Cast, TruncatesAndNames) {
  expect_values(run("Cast", {floats({3}, {-1.5, 0, 2.9f})}, {{"to", std::string("int64")}}), {3},
                {-1, 0, 2});
  EXPECT_EQ(run("Cast", {ints({0, 3})}, {{"to", std::string("bool")}}).dtype(), DType::kBool);
  EXPECT_EQ(run("CastLike", {ints({1}), ramp({1})}).dtype(), DType::kFloat32);
  EXPECT_THROW(run("Cast", {ints({1})}, {{"to", std::string("quux")}}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::ir
