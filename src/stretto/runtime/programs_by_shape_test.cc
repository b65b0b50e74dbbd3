#include "stretto/runtime/programs_by_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/import/onnx/test_model.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"

namespace stretto::runtime {
namespace {

using namespace onnx::testing;  // NOLINT

// x [N, 3, h, w] through a convolution with a batch norm, whose product is a large constant, then a
// mean and a product with a matrix.
std::string convolutional() {
  const auto values = [](std::string_view name, const std::vector<int64_t>& dims) {
    std::string data;
    for (int64_t i = 0; i < element_count(dims); ++i) {
      const float v = static_cast<float>(i % 17) / 17 + 0.1f;
      data.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
    return tensor(name, onnx::DataType::kFloat, dims, data);
  };
  return model({.nodes = {node("Conv", {"x", "w"}, {"a"}, {attr_ints("pads", {1, 1, 1, 1})}),
                          node("BatchNormalization", {"a", "s", "b", "m", "v"}, {"n"}),
                          node("Relu", {"n"}, {"r"}), node("GlobalAveragePool", {"r"}, {"p"}),
                          node("Flatten", {"p"}, {"f"}), node("MatMul", {"f", "c"}, {"y"})},
                .inputs = {input("x", {"N", "32", "h", "w"})},
                .outputs = {"y"},
                .initializers = {values("w", {64, 32, 3, 3}), values("s", {64}), values("b", {64}),
                                 values("m", {64}), values("v", {64}), values("c", {64, 100})}});
}

Model optimized(const std::string& bytes, std::map<std::string, ShapeRange> ranges = {}) {
  OptimizeOptions options{
      .threads = 1, .tuning = "off", .tuning_cache = "none", .verify = false, .profile = false};
  options.ranges = std::move(ranges);
  return optimize(std::as_bytes(std::span(bytes)), "m.onnx", "", options);
}

TEST(ProgramsByShape, WeightsArePackedOnceForAllShapes) {
  const Model model = optimized(convolutional(), {{"x", parse_shape_range("1..8x32x6..40x6..40")}});
  ProgramsByShape& programs = *model.state().by_shape;
  const kernels::Target target = model.state().program->target;
  const int64_t packed = programs.siblings().weights().bytes();
  EXPECT_GE(packed, model.weight_bytes());
  for (const Shape& shape : {Shape{1, 32, 40, 40}, Shape{3, 32, 17, 30}, Shape{8, 32, 6, 6}}) {
    const auto program = programs.program(std::array{shape}, target);
    EXPECT_EQ(program->inputs[0].shape, shape);
    EXPECT_EQ(program->outputs[0].shape, (Shape{shape[0], 100}));
  }
  EXPECT_EQ(programs.siblings().weights().bytes(), packed);
}

TEST(ProgramsByShape, TheSameShapesAreTheSameProgramWhileKept) {
  const Model model = optimized(convolutional());
  ProgramsByShape& programs = *model.state().by_shape;
  const kernels::Target target = model.state().program->target;
  const auto of = [&](int64_t batch) {
    return programs.program(std::array{Shape{batch, 32, 8, 8}}, target);
  };
  const auto first = of(2);
  EXPECT_EQ(of(2), first);
  for (int64_t batch = 3; batch < 3 + static_cast<int64_t>(ProgramsByShape::kKept); ++batch) {
    of(batch);
  }
  EXPECT_NE(of(2), first);  // made anew
}

TEST(ProgramsByShape, RunsOfAllShapesAgree) {
  Session session(optimized(convolutional()));
  Tensor all(DType::kFloat32, {4, 32, 9, 7});
  float next = 0;
  for (float& v : all.mutable_values<float>()) v = std::sin(next++);
  const Tensor together = session.run({all})[0];
  for (int64_t i = 0; i < 4; ++i) {
    Tensor one(DType::kFloat32, {1, 32, 9, 7});
    std::ranges::copy(all.values<float>().subspan(static_cast<size_t>(i * one.count()),
                                                  static_cast<size_t>(one.count())),
                      one.mutable_values<float>().begin());
    const Tensor alone = session.run({one})[0];
    for (int64_t j = 0; j < 100; ++j) {
      EXPECT_NEAR(alone.values<float>()[j], together.values<float>()[i * 100 + j],
                  1e-4 * std::abs(alone.values<float>()[j]));
    }
  }
}

TEST(ProgramsByShape, ChecksRangesAndNames) {
  const ProgramsByShape programs({{"a", parse_shape_range("n:1..4x3")}, {"b", {{1, 9, "n"}}}}, {});
  EXPECT_NO_THROW(programs.check(std::vector<Shape>{{2, 3}, {2}}));
  const auto refusal = [&](const std::vector<Shape>& shapes) {
    try {
      programs.check(shapes);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({{5, 3}, {5}}), "input a: expected shape n:1..4x3, got 5x3");
  EXPECT_EQ(refusal({{2, 3}, {2, 1}}), "input b: expected shape n:1..9, got 2x1");
  EXPECT_EQ(refusal({{2, 3}, {3}}), "input b: dimension n is 3 here and 2 in input a");
  EXPECT_EQ(refusal({{2, 3}}), "expected 2 inputs, got 1");
}

}  // namespace
}  // namespace stretto::runtime
