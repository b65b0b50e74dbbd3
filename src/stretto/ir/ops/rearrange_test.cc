#include <limits>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

using Ints = std::vector<int64_t>;

TEST(Transpose, PermutesAndReverses) {
  expect_values(run("Transpose", {ramp({2, 3})}), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_values(run("Transpose", {ramp({2, 1, 3})}, {{"perm", Ints{2, 0, 1}}}), {3, 2, 1},
                {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(run("Transpose", {ints({})}).shape(), (Shape{0}));
  EXPECT_NE(error_of("Transpose", {ramp({2, 3})}, {{"perm", Ints{0, 0}}}).find("perm"),
            std::string::npos);
}

TEST(Transpose, NarrowTypesAreMovedToo) {
  for (DType dtype : {DType::kInt4, DType::kUInt2, DType::kFloat8E4M3FN, DType::kFloat4E2M1}) {
    const Tensor x = ints({2, 3}, {0, 1, 2, 3, 1, 0}).converted(dtype);
    const Tensor y = run("Transpose", {x});
    EXPECT_EQ(y.dtype(), dtype);
    expect_values(y, {3, 2}, {0, 3, 1, 1, 2, 0});
    expect_values(run("Reshape", {x, ints({-1})}), {6}, {0, 1, 2, 3, 1, 0});
    const Tensor fill = ints({}, {2}).converted(dtype);
    expect_values(run("Pad", {x, ints({0, 1, 0, 0}), fill}), {2, 4}, {2, 0, 1, 2, 2, 3, 1, 0});
  }
}

TEST(Slice, StepsBackwardsAndClamps) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t most = std::numeric_limits<int64_t>::max();
  const auto slice = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return run("Slice", {ramp({10}), ints(starts), ints(ends), ints(axes), ints(steps)});
  };
  expect_values(slice({-3}, {most}, {0}, {1}), {3}, {7, 8, 9});
  expect_values(slice({most}, {least}, {-1}, {-4}), {3}, {9, 5, 1});
  expect_values(slice({4}, {-1}, {0}, {-1}), {0}, {});
  expect_values(slice({8}, {2}, {0}, {least}), {1}, {8});
  expect_values(slice({2}, {3}, {0}, {most}), {1}, {2});
  expect_values(run("Slice", {ramp({2, 3}), ints({0, 1}), ints({1, 3})}), {1, 2}, {1, 2});
  EXPECT_NE(
      error_of("Slice", {ramp({3}), ints({0}), ints({1}), ints({0}), ints({0})}).find("steps"),
      std::string::npos);
  EXPECT_NE(error_of("Slice", {ramp({3}), ints({0}), ints({1}), ints({1})}).find("axis 1"),
            std::string::npos);
}

TEST(Expand, BroadcastsBothWays) {
  expect_values(run("Expand", {ramp({2, 1}), ints({1, 2})}), {2, 2}, {0, 0, 1, 1});
  expect_values(run("Expand", {ramp({3}), ints({2, 1})}), {2, 3}, {0, 1, 2, 0, 1, 2});
  EXPECT_NE(error_of("Expand", {ramp({3}), ints({2})}).find("broadcast"), std::string::npos);
}

TEST(Tile, RepeatsEveryAxis) {
  expect_values(run("Tile", {ramp({1, 2}), ints({2, 2})}), {2, 4}, {0, 1, 0, 1, 0, 1, 0, 1});
  expect_values(run("Tile", {ramp({2}), ints({0})}), {0}, {});
  EXPECT_NE(error_of("Tile", {ramp({2}), ints({-1})}).find("repeats"), std::string::npos);
}

TEST(Space, DepthAndBackAgain) {
  const Tensor x = ramp({1, 8, 1, 2});
  expect_values(run("DepthToSpace", {x}, {{"blocksize", int64_t{2}}}), {1, 2, 2, 4},
                {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  expect_values(run("DepthToSpace", {x}, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}),
                {1, 2, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15});
  for (const char* mode : {"DCR", "CRD"}) {
    const AttributeList attributes = {{"blocksize", int64_t{2}}, {"mode", std::string(mode)}};
    const Tensor there = run("DepthToSpace", {x}, attributes);
    EXPECT_EQ(run("SpaceToDepth", {there}, attributes).as_doubles(), x.as_doubles()) << mode;
  }
  EXPECT_NE(error_of("DepthToSpace", {ramp({1, 6, 1, 1})}, {{"blocksize", int64_t{2}}})
                .find("6 channels"),
            std::string::npos);
}

TEST(Concat, AlongAnyAxis) {
  expect_values(run("Concat", {ramp({2, 1}), ramp({2, 2}, 10)}, {{"axis", int64_t{-1}}}), {2, 3},
                {0, 0, 10, 1, 20, 30});
  EXPECT_EQ(run("Concat", {ramp({0, 2}), ramp({1, 2})}, {{"axis", int64_t{0}}}).shape(),
            (Shape{1, 2}));
  EXPECT_NE(error_of("Concat", {ramp({2, 1}), ramp({3, 1})}, {{"axis", int64_t{1}}})
                .find("input 1 has shape 3x1"),
            std::string::npos);
}

TEST(Split, EqualUnequalAndGiven) {
  const auto parts = run_all("Split", {ramp({7})}, {{"num_outputs", int64_t{3}}}, 3);
  expect_values(parts[0], {3}, {0, 1, 2});
  expect_values(parts[2], {1}, {6});
  const auto given = run_all("Split", {ramp({2, 3}), ints({1, 2})}, {{"axis", int64_t{1}}}, 2);
  expect_values(given[0], {2, 1}, {0, 3});
  expect_values(given[1], {2, 2}, {1, 2, 4, 5});
  EXPECT_NE(error_of("Split", {ramp({4}), ints({1, 2})}, {}, 2).find("sum to 4"),
            std::string::npos);
}

TEST(Pad, EveryMode) {
  const Tensor x = ramp({3}, 1, 1);
  const auto pad = [&](const char* mode, Ints pads) {
    return run("Pad", {x, ints(pads)}, {{"mode", std::string(mode)}});
  };
  expect_values(pad("constant", {1, 2}), {6}, {0, 1, 2, 3, 0, 0});
  expect_values(pad("constant", {-1, 1}), {3}, {2, 3, 0});
  expect_values(pad("edge", {2, 1}), {6}, {1, 1, 1, 2, 3, 3});
  expect_values(pad("reflect", {2, 2}), {7}, {3, 2, 1, 2, 3, 2, 1});
  expect_values(pad("wrap", {2, 1}), {6}, {2, 3, 1, 2, 3, 1});
  expect_values(run("Pad", {ramp({1, 2}), ints({1, 0}), floats({}, {9}), ints({-1})}), {1, 3},
                {9, 0, 1});
  EXPECT_NE(error_of("Pad", {x, ints({-2, -2})}).find("cut more"), std::string::npos);
  EXPECT_NE(error_of("Pad", {x, ints({1})}).find("pads"), std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
