#include "stretto/runtime/select.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
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

TEST(Selector, ForcedBeatsTheTuningCacheBeatsOrder) {
  const kernels::Conv2dProblem p = layer();
  const std::string key = problem_key(p);
  EXPECT_EQ(Selector({}).select(kernels::kConv2d, &p).why, "built-in order");
  SelectOptions options;
  options.known.put(key, {"reference", 1e-3});
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "from the tuning cache");
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).row, kernels::kConv2d.reference);
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
  EXPECT_EQ(unmeasured.select(kernels::kConv2d, &p).row, kernels::kConv2d.reference);
  Selector measured(options);
  measured.measure({{&kernels::kConv2d, &p}}, {});
  EXPECT_NE(measured.select(kernels::kConv2d, &p).row, kernels::kConv2d.reference);
}

TEST(Selector, AChoiceOfAnUnknownKernelIsIgnored) {
  const kernels::Conv2dProblem p = layer();
  SelectOptions options;
  options.known.put(problem_key(p), {"kernel_of_the_future", 1e-3});
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "built-in order");
}

// The other architecture's baseline has vectors of the same length as one of this one's.
TEST(Selector, AChoiceOfAnotherArchitectureIsNotUsed) {
  kernels::Conv2dProblem p = layer(), foreign = layer();
  p.target.isa = kIsas.front();
  foreign.target.isa = p.target.isa == Isa::kNeon ? Isa::kPortable : Isa::kNeon;
  ASSERT_EQ(p.target.lanes(), foreign.target.lanes());
  ASSERT_NE(problem_key(p), problem_key(foreign));
  SelectOptions options;
  options.known.put(problem_key(foreign), {"reference", 1e-3});
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "built-in order");
  options.known.put(problem_key(p), {"reference", 1e-3});
  EXPECT_EQ(Selector(options).select(kernels::kConv2d, &p).why, "from the tuning cache");
}

TEST(Selector, MeasuresChecksAndRemembers) {
  const kernels::Conv2dProblem p = layer();
  Selector selector({.budget_s = 0.3});
  selector.measure({{&kernels::kConv2d, &p}}, {});
  const Selection& s = selector.select(kernels::kConv2d, &p);
  EXPECT_GT(s.seconds, 0);
  EXPECT_FALSE(s.alternatives.empty());
  EXPECT_EQ(selector.counts().measured, 1);
  // The same choices, read back, give the same row at the same cost.
  Selector again({.known = selector.used()});
  EXPECT_EQ(again.select(kernels::kConv2d, &p).row, s.row);
  EXPECT_EQ(again.select(kernels::kConv2d, &p).cost(), s.cost());
}

// A family whose only row besides the reference makes nothing but NaN.
struct FakeProblem {
  kernels::Target target;
  int64_t n = 64;
};
std::string problem_key(const FakeProblem&) { return "fake"; }
double problem_flops(const FakeProblem& p) { return static_cast<double>(p.n); }
kernels::Signature problem_signature(const FakeProblem& p) {
  return {.inputs = {{.name = "x", .shape = {p.n}}}, .outputs = {{.name = "y", .shape = {p.n}}}};
}
template <bool kRight>
void fake_run(const FakeProblem& p, const kernels::Args& args, const Worker&) {
  for (int64_t i = 0; i < p.n; ++i) {
    static_cast<float*>(args.outputs[0])[i] =
        kRight ? static_cast<const float*>(args.inputs[0])[i] : std::nanf("");
  }
}
kernels::Fit fake_fits(const FakeProblem&) { return kernels::Fit::yes(1); }
constexpr kernels::Candidate<FakeProblem> kNanRow{
    .name = "nan", .fits = fake_fits, .run = fake_run<false>};
constexpr kernels::Candidate<FakeProblem> kRightRow{
    .name = "reference", .fits = fake_fits, .run = fake_run<true>};
constexpr const kernels::Candidate<FakeProblem>* kFakeRows[] = {&kNanRow, &kRightRow};
constexpr kernels::Family kFake = kernels::make_family<FakeProblem, kFakeRows, kRightRow>("fake");

TEST(Selector, AKernelThatMakesNanIsStruckOutAndTheReferenceRuns) {
  const FakeProblem p;
  Selector selector({.budget_s = 0.1});
  selector.measure({{&kFake, &p}}, {});
  const Selection& s = selector.select(kFake, &p);
  EXPECT_EQ(s.row, 1);
  EXPECT_GT(s.seconds, 0);
  EXPECT_EQ(s.why, "reference: all of 1 measured were excluded");
  ASSERT_EQ(s.alternatives.size(), 1u);
  EXPECT_EQ(s.alternatives[0].reason, "excluded: error inf is above 1e-04");
}

// A family with a row that expects more or less than the best one, whose runs outlast any budget.
struct SlowProblem {
  kernels::Target target;
  int64_t number = 0;
  double rival = 1;  // what the second row expects; the best one expects 1
};
std::string problem_key(const SlowProblem& p) { return "slow " + std::to_string(p.number); }
double problem_flops(const SlowProblem&) { return 0; }
kernels::Signature problem_signature(const SlowProblem&) {
  return {.inputs = {{.name = "x", .shape = {1}}}, .outputs = {{.name = "y", .shape = {1}}}};
}
constexpr double kSlow_s = 2e-3;
void slow_run(const SlowProblem&, const kernels::Args& args, const Worker&) {
  const double start = now_s();
  while (now_s() - start < kSlow_s) {
  }
  static_cast<float*>(args.outputs[0])[0] = 0;
}
kernels::Fit slow_fits(const SlowProblem&) { return kernels::Fit::yes(1); }
kernels::Fit rival_fits(const SlowProblem& p) { return kernels::Fit::yes(p.rival); }
kernels::Fit reference_fits(const SlowProblem&) { return kernels::Fit::yes(1e-3); }
constexpr kernels::Candidate<SlowProblem> kSlowRow{
    .name = "slow", .fits = slow_fits, .run = slow_run};
constexpr kernels::Candidate<SlowProblem> kRivalRow{
    .name = "rival", .fits = rival_fits, .run = slow_run};
constexpr kernels::Candidate<SlowProblem> kSlowReference{
    .name = "reference", .fits = reference_fits, .run = slow_run};
constexpr const kernels::Candidate<SlowProblem>* kSlowRows[] = {&kSlowRow, &kRivalRow,
                                                                &kSlowReference};
constexpr kernels::Family kSlow =
    kernels::make_family<SlowProblem, kSlowRows, kSlowReference>("slow");

// Measures with a budget that one problem uses up, and returns the number of that problem.
int64_t first_measured(const std::vector<Selector::Request>& requests) {
  Selector selector({.budget_s = kSlow_s});
  selector.measure(requests, {});
  EXPECT_EQ(selector.found().size(), 1u);
  for (const Selector::Request& request : requests) {
    if (selector.found().find(kSlow.key(request.problem))) {
      return static_cast<const SlowProblem*>(request.problem)->number;
    }
  }
  return -1;
}

TEST(Selector, MeasuresFirstWhatMostIsExpectedFrom) {
  const SlowProblem once{.number = 1}, shared{.number = 2}, clear{.number = 3, .rival = 0.5};
  EXPECT_EQ(first_measured({{&kSlow, &once}, {&kSlow, &shared}, {&kSlow, &shared}}), 2);
  EXPECT_EQ(first_measured({{&kSlow, &clear}, {&kSlow, &clear}, {&kSlow, &once}}), 1);
  EXPECT_EQ(first_measured({{&kSlow, &once, 0.3}, {&kSlow, &shared, 0.5}}), 2);
}

TEST(Selector, ShowsProgressThatNeverGoesBack) {
  const SlowProblem a{.number = 1}, b{.number = 2, .rival = 0.5}, c{.number = 3};
  std::vector<double> shares;
  Selector selector({.budget_s = 1});
  selector.measure({{&kSlow, &a}, {&kSlow, &b}, {&kSlow, &c}, {&kSlow, &c}},
                   [&](std::string_view, double share) { shares.push_back(share); });
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0], 0);
  EXPECT_LT(shares[0], shares[1]);
  EXPECT_LT(shares[1], shares[2]);
  EXPECT_LT(shares[2], 1);
}

}  // namespace
}  // namespace stretto::runtime
