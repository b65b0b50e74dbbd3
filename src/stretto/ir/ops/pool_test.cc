#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

using Ints = std::vector<int64_t>;

TEST(MaxPool, WindowsPaddingAndIndices) {
  const Tensor x = ramp({1, 1, 4, 4});
  expect_values(run("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}),
                {1, 1, 2, 2}, {5, 7, 13, 15});
  const auto both = run_all("MaxPool", {ramp({1, 2, 3}, -1, -1)},
                            {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}}, 2);
  expect_values(both[0], {1, 2, 3}, {-1, -1, -2, -4, -4, -5});
  expect_values(both[1], {1, 2, 3}, {0, 0, 1, 3, 3, 4});
}

TEST(MaxPool, NotANumberWins) {
  expect_values(run("MaxPool", {floats({1, 1, 3}, {NAN, 5, 1})}, {{"kernel_shape", Ints{2}}}),
                {1, 1, 2}, {NAN, 5});
}

TEST(MaxPool, CeilModeDropsWindowsThatBeginInThePadding) {
  // Length 3, kernel 1, stride 2, one pad at the end: ceil would give 3 outputs, the last in the
  // pad.
  const AttributeList attributes = {{"kernel_shape", Ints{1}},
                                    {"strides", Ints{2}},
                                    {"pads", Ints{0, 1}},
                                    {"ceil_mode", int64_t{1}}};
  expect_values(run("MaxPool", {ramp({1, 1, 4})}, attributes), {1, 1, 2}, {0, 2});
  expect_values(run("MaxPool", {ramp({1, 1, 5})},
                    {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}}),
                {1, 1, 3}, {1, 3, 4});
}

TEST(Pool, CeilModeKeepsAWindowLargerThanTheImage) {
  const AttributeList attributes = {
      {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}};
  expect_values(run("MaxPool", {ramp({1, 1, 2, 4})}, attributes), {1, 1, 1, 2}, {6, 7});
  expect_values(run("AveragePool", {ramp({1, 1, 2, 4})}, attributes), {1, 1, 1, 2}, {3, 4.5});
  // The next window would begin at or before the last one's end: there is none.
  EXPECT_NE(error_of("MaxPool", {ramp({1, 1, 1, 4})}, attributes).find("spans 3 inputs"),
            std::string::npos);
}

TEST(AveragePool, CountsPaddingOnRequestOnly) {
  const Tensor x = floats({1, 1, 3}, {3, 6, 9});
  const Attribute kernel = Ints{2}, pads = Ints{1, 1};
  expect_values(run("AveragePool", {x}, {{"kernel_shape", kernel}, {"pads", pads}}), {1, 1, 4},
                {3, 4.5, 7.5, 9});
  expect_values(run("AveragePool", {x},
                    {{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", int64_t{1}}}),
                {1, 1, 4}, {1.5, 4.5, 7.5, 4.5});
  // What ceil_mode adds beyond the declared padding does not count.
  expect_values(run("AveragePool", {x},
                    {{"kernel_shape", kernel},
                     {"strides", Ints{2}},
                     {"ceil_mode", int64_t{1}},
                     {"count_include_pad", int64_t{1}}}),
                {1, 1, 2}, {4.5, 9});
}

// 2^30 taps along each axis, nearly all of them in the padding: the time goes by the image.
TEST(Pool, KernelsFarLargerThanTheImage) {
  const Ints kernel{1 << 30, 1 << 30}, pads(4, 1 << 29);
  const Tensor x = ramp({1, 1, 2, 2});
  expect_values(run("MaxPool", {x}, {{"kernel_shape", kernel}, {"pads", pads}}), {1, 1, 3, 3},
                {3, 3, 3, 3, 3, 3, 3, 3, 3});
  expect_values(run("AveragePool", {x}, {{"kernel_shape", kernel}, {"pads", pads}}), {1, 1, 3, 3},
                {1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5});
}

TEST(Pool, NamesWhatIsWrong) {
  EXPECT_NE(error_of("MaxPool", {ramp({1, 1, 4})}).find("kernel_shape is missing"),
            std::string::npos);
  EXPECT_NE(error_of("MaxPool", {ramp({1, 1, 4})}, {{"kernel_shape", Ints{2, 2}}}).find("kernel"),
            std::string::npos);
  EXPECT_NE(error_of("AveragePool", {ramp({1, 1, 4})},
                     {{"kernel_shape", Ints{2}}, {"auto_pad", std::string("SAME")}})
                .find("auto_pad"),
            std::string::npos);
}

TEST(GlobalPool, OneValuePerChannel) {
  expect_values(run("GlobalAveragePool", {ramp({1, 2, 2, 2})}), {1, 2, 1, 1}, {1.5, 5.5});
  expect_values(run("GlobalMaxPool", {ramp({2, 1, 3}, -1)}), {2, 1, 1}, {0, -3});
  expect_values(run("GlobalAveragePool", {ramp({1, 1, 0})}), {1, 1, 1}, {NAN});
}

}  // namespace
}  // namespace stretto::ir
