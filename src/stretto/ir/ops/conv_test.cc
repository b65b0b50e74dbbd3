#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

using Ints = std::vector<int64_t>;

// Deterministic values without structure that could hide an indexing mistake.
Tensor scattered(Shape shape, int seed) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  int64_t i = seed;
  for (float& v : tensor.mutable_values<float>()) v = static_cast<float>(std::sin(12.9898 * ++i));
  return tensor;
}

// The definition, one output at a time, two spatial axes.
std::vector<double> direct(const Tensor& x, const Tensor& w, int64_t groups, Ints strides,
                           Ints pads, Ints dilations, const Shape& y) {
  const auto xs = x.as_doubles(), ws = w.as_doubles();
  std::vector<double> out;
  const int64_t per_group = w.dim(0) / groups;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t r = 0; r < y[2]; ++r)
        for (int64_t s = 0; s < y[3]; ++s) {
          double sum = 0;
          for (int64_t i = 0; i < w.dim(1); ++i)
            for (int64_t p = 0; p < w.dim(2); ++p)
              for (int64_t q = 0; q < w.dim(3); ++q) {
                const int64_t h = r * strides[0] + p * dilations[0] - pads[0];
                const int64_t v = s * strides[1] + q * dilations[1] - pads[1];
                if (h < 0 || h >= x.dim(2) || v < 0 || v >= x.dim(3)) continue;
                const int64_t channel = o / per_group * w.dim(1) + i;
                sum += xs[((n * x.dim(1) + channel) * x.dim(2) + h) * x.dim(3) + v] *
                       ws[((o * w.dim(1) + i) * w.dim(2) + p) * w.dim(3) + q];
              }
          out.push_back(sum);
        }
  return out;
}

TEST(Conv, HandComputed) {
  // 3x3 ramp with a 2x2 kernel of ones: sums of four neighbours.
  expect_values(run("Conv", {ramp({1, 1, 3, 3}), floats({1, 1, 2, 2}, {1, 1, 1, 1})}), {1, 1, 2, 2},
                {8, 12, 20, 24});
  expect_values(run("Conv", {ramp({1, 1, 4}), floats({1, 1, 2}, {1, -1}), floats({1}, {10})}),
                {1, 1, 3}, {9, 9, 9});
}

// The first tap reads padding only; the range of outputs it contributes to is empty, not reversed.
TEST(Conv, HasTapsThatNeverMeetTheInput) {
  expect_values(run("Conv", {floats({1, 1, 1}, {3}), floats({1, 1, 2}, {5, 7})},
                    {{"pads", Ints{7, 0}}, {"dilations", Ints{7}}, {"strides", Ints{2}}}),
                {1, 1, 1}, {21});
}

TEST(Conv, MatchesTheDefinition) {
  struct Case {
    Shape x, w, y;
    int64_t groups;
    Ints strides, pads, dilations;
  };
  const Case cases[] = {
      {{2, 5, 9, 11}, {33, 5, 3, 3}, {2, 33, 9, 11}, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 6, 10, 7}, {8, 3, 3, 2}, {1, 8, 5, 5}, 2, {2, 1}, {0, 1, 1, 0}, {1, 3}},
      {{2, 6, 8, 8}, {6, 1, 5, 5}, {2, 6, 4, 4}, 6, {2, 2}, {2, 2, 2, 2}, {1, 1}},
      {{1, 4, 5, 5}, {8, 2, 1, 1}, {1, 8, 3, 3}, 2, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {{1, 300, 17, 15}, {9, 300, 1, 1}, {1, 9, 17, 15}, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {{1, 1, 2, 2}, {5, 1, 1, 1}, {1, 5, 2, 2}, 1, {2, 2}, {0, 0, 2, 2}, {1, 1}},
      // Taps that no output can place inside the image, for few and for many output channels.
      {{1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 3, 5}, 1, {1, 1}, {0, 9, 0, 9}, {1, 9}},
      {{1, 2, 5, 5}, {6, 2, 3, 3}, {1, 6, 3, 5}, 1, {1, 1}, {0, 9, 0, 9}, {1, 9}},
  };
  ThreadTeam team(2);
  for (const Case& c : cases) {
    const Tensor x = scattered(c.x, 1), w = scattered(c.w, 7);
    const AttributeList attributes = {
        {"group", c.groups}, {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}};
    const auto expected = direct(x, w, c.groups, c.strides, c.pads, c.dilations, c.y);
    // Stored as float32: 2^-24 relative.
    expect_values(run("Conv", {x, w}, attributes), c.y, expected, 1e-6);
    expect_values(run_all("Conv", {x, w}, attributes, 1, &team)[0], c.y, expected, 1e-6);
  }
}

TEST(Conv, AutoPadSplitsTheOddElement) {
  const Tensor x = ramp({1, 1, 4}, 1, 1), w = floats({1, 1, 2}, {1, 10});
  expect_values(run("Conv", {x, w}, {{"auto_pad", std::string("SAME_UPPER")}}), {1, 1, 4},
                {21, 32, 43, 4});
  expect_values(run("Conv", {x, w}, {{"auto_pad", std::string("SAME_LOWER")}}), {1, 1, 4},
                {10, 21, 32, 43});
  expect_values(run("Conv", {x, w}, {{"auto_pad", std::string("VALID")}}), {1, 1, 3}, {21, 32, 43});
}

TEST(Conv, ThreeAxesAndEmptyBatch) {
  expect_values(run("Conv", {ramp({1, 1, 2, 2, 2}), floats({1, 1, 2, 1, 2}, {1, 1, 1, 1})}),
                {1, 1, 1, 2, 1}, {0 + 1 + 4 + 5, 2 + 3 + 6 + 7});
  expect_values(run("Conv", {ramp({0, 1, 3, 3}), ramp({4, 1, 2, 2})}), {0, 4, 2, 2}, {});
}

TEST(Conv, NamesWhatIsWrong) {
  const Tensor x = ramp({1, 4, 5, 5});
  EXPECT_EQ(error_of("Conv", {x, ramp({2, 3, 3, 3})}),
            "Conv \"n\": weight has 3 input channels x 1 groups, input has 4");
  EXPECT_NE(error_of("Conv", {x, ramp({3, 2, 3, 3})}, {{"group", int64_t{2}}}).find("group"),
            std::string::npos);
  EXPECT_NE(error_of("Conv", {x, ramp({2, 4, 3, 3})}, {{"strides", Ints{1, 0}}}).find("strides"),
            std::string::npos);
  EXPECT_NE(error_of("Conv", {x, ramp({2, 4, 3, 3})}, {{"pads", Ints{1, 1}}}).find("pads"),
            std::string::npos);
  EXPECT_NE(error_of("Conv", {x, ramp({2, 4, 6, 3})}).find("spans 6 inputs"), std::string::npos);
  EXPECT_NE(error_of("Conv", {x, ramp({2, 4, 3, 3}), ramp({3})}).find("bias"), std::string::npos);
  EXPECT_NE(error_of("Conv", {ramp({4, 5}), ramp({2, 4})}).find("spatial axes"), std::string::npos);
}

TEST(FusedConv, AppliesTheEpilogueInOrder) {
  const Tensor x = floats({1, 1, 2}, {1, -3}), w = floats({1, 1, 1}, {2});
  const Tensor bias = floats({1}, {1}), residual = floats({1, 1, 2}, {-4, 1});
  const auto fused = [&](AttributeList attributes) {
    return run("stretto.Conv", {x, w, bias, residual}, attributes);
  };
  expect_values(fused({{"activation", std::string("relu")}}), {1, 1, 2}, {0, 0});
  expect_values(
      fused({{"activation", std::string("relu")}, {"residual_after_activation", int64_t{1}}}),
      {1, 1, 2}, {-1, 1});
  expect_values(fused({{"activation", std::string("leaky_relu")}, {"alpha", 0.5}}), {1, 1, 2},
                {-0.5, -2});
  EXPECT_NE(error_of("stretto.Conv", {x, w}, {{"activation", std::string("bump")}}).find("'bump'"),
            std::string::npos);
  EXPECT_NE(error_of("stretto.Conv", {x, w, {}, bias}).find("residual"), std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
