#include "stretto/runtime/select.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/kernels/conv2d/problem.h"

namespace stretto::runtime {
namespace {

kernels::Conv2dProblem layer() {
  return {.target = {.isa = usable_isa()},
          .c = 32,
          .h = 14,
          .w = 14,
          .k = 32,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_top = 1,
          .pad_left = 1,
          .pad_bottom = 1,
          .pad_right = 1,
          .x_layout = Layout::kBlocked,
          .y_layout = Layout::kBlocked};
}

TEST(Selector, ForcedBeatsRecordedBeatsOrder) {
  const kernels::Conv2dProblem p = layer();
  const std::string key = problem_key(p);
  EXPECT_EQ(Selector({}).select(kernels::kConv2d, &p).why, "built-in order");
  SelectOptions options;
  options.record.put(key, {"reference", 1e-3});
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "recorded");
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).row, kernels::kConv2d.rows - 1);
  options.forced["conv2d"] = "direct";
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "forced");
  options.forced["conv2d"] = "no_such_kernel";
  EXPECT_THROW(Selector{options}, InvalidArgument);
}

TEST(Selector, AdviceStandsInForMeasurementsButNotInTheirWay) {
  const kernels::Conv2dProblem p = layer();
  SelectOptions options{.budget_s = 0.2};
  options.advice.put(problem_key(p), {"reference", 1e-3});
  Selector unmeasured(options);
  EXPECT_EQ(unmeasured.select(kernels::kConv2d, &p).row, kernels::kConv2d.rows - 1);
  Selector measured(options);
  measured.measure({{&kernels::kConv2d, &p}}, {});
  EXPECT_NE(measured.select(kernels::kConv2d, &p).row, kernels::kConv2d.rows - 1);
}

TEST(Selector, ARecordOfAnUnknownKernelIsIgnored) {
  const kernels::Conv2dProblem p = layer();
  SelectOptions options;
  options.record.put(problem_key(p), {"kernel_of_the_future", 1e-3});
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "built-in order");
}

TEST(Selector, MeasuresChecksAndRemembers) {
  const kernels::Conv2dProblem p = layer();
  Selector selector({.budget_s = 0.3});
  selector.measure({{&kernels::kConv2d, &p}}, {});
  const Selection& s = selector.select(kernels::kConv2d, &p);
  EXPECT_GT(s.seconds, 0);
  EXPECT_FALSE(s.alternatives.empty());
  EXPECT_EQ(selector.counts().measured, 1);
  // The same record, read back, gives the same row at the same cost.
  Selector again({.record = selector.used()});
  EXPECT_EQ(again.select(kernels::kConv2d, &p).row, s.row);
  EXPECT_EQ(again.select(kernels::kConv2d, &p).cost(), s.cost());
}

}  // namespace
}  // namespace stretto::runtime
