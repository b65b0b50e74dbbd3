#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

std::vector<double> resized(const Tensor& x, int64_t size, AttributeList attributes) {
  return run("Resize", {x, {}, {}, ints({size})}, attributes).as_doubles();
}
std::vector<double> near(std::vector<double> values) {
  for (double& v : values) v = std::round(v * 1e5) / 1e5;
  return values;
}
Attribute text(const char* value) { return std::string(value); }

TEST(Resize, NearestByEveryRounding) {
  const Tensor x = ramp({3});
  // Centres of 5 outputs over 3 inputs: -0.2, 0.4, 1, 1.6, 2.2.
  EXPECT_EQ(resized(x, 5, {}), (std::vector<double>{0, 0, 1, 2, 2}));
  EXPECT_EQ(resized(x, 5, {{"nearest_mode", text("floor")}}), (std::vector<double>{0, 0, 1, 1, 2}));
  EXPECT_EQ(resized(x, 5, {{"nearest_mode", text("ceil")}}), (std::vector<double>{0, 1, 1, 2, 2}));
  // The usual upsampling by two: every value twice.
  EXPECT_EQ(resized(x, 6,
                    {{"coordinate_transformation_mode", text("asymmetric")},
                     {"nearest_mode", text("floor")}}),
            (std::vector<double>{0, 0, 1, 1, 2, 2}));
}

TEST(Resize, LinearAndCubic) {
  const Tensor x = ramp({2});
  EXPECT_EQ(near(resized(x, 4, {{"mode", text("linear")}})),
            (std::vector<double>{0, 0.25, 0.75, 1}));
  EXPECT_EQ(near(resized(x, 3,
                         {{"mode", text("linear")},
                          {"coordinate_transformation_mode", text("align_corners")}})),
            (std::vector<double>{0, 0.5, 1}));
  // With a = -1/2 cubic interpolation reproduces a straight line away from the edges.
  const auto cubic = resized(ramp({8}), 16, {{"mode", text("cubic")}, {"cubic_coeff_a", -0.5}});
  for (int i = 4; i < 12; ++i) EXPECT_NEAR(cubic[i], (i + 0.5) / 2 - 0.5, 1e-6);
  // Antialiased halving averages with a triangle: 1/8 3/8 3/8 1/8.
  const auto half = resized(floats({8}, {0, 0, 0, 8, 0, 0, 0, 0}), 4,
                            {{"mode", text("linear")}, {"antialias", int64_t{1}}});
  EXPECT_EQ(near(half), (std::vector<double>{0, 3, 1, 0}));
}

TEST(Resize, ScalesTwoAxesAndExtrapolation) {
  expect_values(run("Resize", {ramp({1, 2}), {}, floats({2}, {2, 1})}), {2, 2}, {0, 1, 0, 1});
  EXPECT_EQ(run("Resize", {ramp({10}), {}, floats({1}, {0.7f})}).shape(), (Shape{7}));
  expect_values(run("Resize", {ramp({3}), floats({2}, {0, 2}), {}, ints({3})},
                    {{"coordinate_transformation_mode", text("tf_crop_and_resize")},
                     {"mode", text("linear")},
                     {"extrapolation_value", 9.0}}),
                {3}, {0, 2, 9});
  EXPECT_EQ(run("Resize", {ramp({4, 2}), {}, {}, ints({8, 8})},
                {{"keep_aspect_ratio_policy", text("not_larger")}})
                .shape(),
            (Shape{8, 4}));
}

TEST(Resize, NamesWhatIsWrong) {
  EXPECT_NE(error_of("Resize", {ramp({2})}).find("exactly one"), std::string::npos);
  EXPECT_NE(error_of("Resize", {ramp({2}), {}, floats({1}, {0})}).find("positive"),
            std::string::npos);
  EXPECT_NE(error_of("Resize", {ramp({2}), {}, {}, ints({3, 3})}).find("one per axis"),
            std::string::npos);
  EXPECT_NE(
      error_of("Resize", {ramp({2}), {}, {}, ints({3})}, {{"mode", text("sinc")}}).find("sinc"),
      std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
