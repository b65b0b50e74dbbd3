#include "stretto/runtime/programs_by_shape.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/import/onnx/test_model.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"
#include "stretto/tensor/compare.h"

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

// Convolutions of every kind, products, and a transposed convolution.
std::string of_many_kinds() {
  int seed = 0;
  std::vector<std::string> weights;
  const auto weight = [&](const std::string& name, const std::vector<int64_t>& dims) {
    std::string data;
    const int64_t count = element_count(dims);
    ++seed;
    for (int64_t i = 0; i < count; ++i) {
      const float v = static_cast<float>((i * 7 + seed) % 23 - 11) / static_cast<float>(count);
      data.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
    weights.push_back(tensor(name, onnx::DataType::kFloat, dims, data));
  };
  weight("stem", {32, 3, 3, 3});
  weight("down", {64, 32, 3, 3});
  weight("same", {64, 64, 3, 3});
  weight("depth", {64, 1, 5, 5});
  weight("point", {96, 64, 1, 1});
  weight("groups", {96, 24, 3, 3});
  weight("five", {64, 96, 5, 5});
  weight("up", {64, 48, 4, 4});
  weight("product", {48, 100});
  const auto padded = [](int64_t by) { return attr_ints("pads", {by, by, by, by}); };
  const auto twice = attr_ints("strides", {2, 2});
  return model(
      {.nodes = {node("Conv", {"x", "stem"}, {"a"}, {padded(1), twice}),
                 node("Conv", {"a", "down"}, {"b"}, {padded(1), twice}),
                 node("Conv", {"b", "same"}, {"c"}, {padded(1)}), node("Relu", {"c"}, {"d"}),
                 node("Conv", {"d", "depth"}, {"e"}, {padded(2), attr("group", 64)}),
                 node("Conv", {"e", "point"}, {"f"}),
                 node("Conv", {"f", "groups"}, {"g"}, {padded(1), attr("group", 4)}),
                 node("Conv", {"g", "five"}, {"h"}, {padded(2)}),
                 node("ConvTranspose", {"h", "up"}, {"i"}, {padded(1), twice}),
                 node("Transpose", {"i"}, {"j"}, {attr_ints("perm", {0, 2, 3, 1})}),
                 node("MatMul", {"j", "product"}, {"y"})},
       .inputs = {input("x", {"N", "3", "h", "w"})},
       .outputs = {"y"},
       .initializers = weights});
}

// Widths of panels come from the number of rows, so sizes that no sample had once packed anew.
TEST(ProgramsByShape, NoSizeOfARangePacksWeights) {
  for (const std::string& bytes : {convolutional(), of_many_kinds()}) {
    const bool many = bytes.size() != convolutional().size();
    const Model model = optimized(
        bytes, {{"x", parse_shape_range(many ? "1..8x3x8..120x8..120" : "1..8x32x6..40x6..40")}});
    ProgramsByShape& programs = *model.state().by_shape;
    const kernels::Target target = model.state().program->target;
    const int64_t packed = programs.siblings().weights().bytes();
    const int64_t channels = many ? 3 : 32, least = many ? 8 : 6, most = many ? 120 : 40;
    const int64_t step = many ? 5 : 1;
    for (const int64_t batch : {1, 2, 5, 8}) {
      for (int64_t h = least; h <= most; h += step) {
        for (int64_t w = least; w <= most; w += step) {
          const Shape shape{batch, channels, h, w};
          ASSERT_FALSE(programs.pack_for(std::array{shape}, target)) << shape_text(shape);
        }
      }
    }
    EXPECT_EQ(programs.siblings().weights().bytes(), packed);
  }
}

// Sizes that no sample had run kernels with panels of a width that is not the one they would
// choose.
TEST(ProgramsByShape, OtherWidthsOfPanelsGiveTheSameNumbers) {
  const std::string bytes = of_many_kinds();
  Session ranged(optimized(bytes, {{"x", parse_shape_range("1..8x3x8..120x8..120")}}));
  int other = 0;
  for (const auto& [h, w] : {std::pair{8, 43}, {13, 13}, {8, 118}, {93, 8}, {58, 73}}) {
    Tensor x(DType::kFloat32, {1, 3, h, w});
    float next = 0;
    for (float& v : x.mutable_values<float>()) v = std::sin(next++);
    const Tensor got = ranged.run({x})[0];
    const std::string size = fmt::format("1x3x{}x{}", h, w);
    const Model fixed = optimized(bytes, {{"x", parse_shape_range(size)}});
    const Tensor expected = Session(fixed).run({x})[0];
    // Winograd's transforms and direct sums differ by more than rounding.
    EXPECT_LT(compare(got, expected).relative_to_max, 1e-4) << size;
    ProgramsByShape& programs = *ranged.model().state().by_shape;
    const auto program = programs.program(std::array{x.shape()}, fixed.state().program->target);
    for (const Instruction& in : program->instructions) {
      other += in.family != nullptr && in.family->target(in.problem.data()).panel_width != 0;
    }
  }
  EXPECT_GT(other, 0);
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
