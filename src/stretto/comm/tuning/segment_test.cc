#include "stretto/comm/tuning/segment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

std::vector<Gradient> random_gradients(int n, std::mt19937& random) {
  std::vector<Gradient> gradients;
  double now = 0;
  for (int i = 0; i < n; ++i) {
    now += static_cast<double>(random() % 1000) * 1e-6;
    gradients.push_back({"g" + std::to_string(i), static_cast<int64_t>(random() % 1000000), now});
  }
  return gradients;
}

// All 2^(n-1) ways to cut.
double best_by_trying(std::span<const Gradient> gradients, const LinkCost& link) {
  const int n = static_cast<int>(gradients.size());
  double best = 1e30;
  for (unsigned mask = 0; mask < 1u << (n - 1); ++mask) {
    std::vector<int> ends;
    for (int i = 1; i < n; ++i)
      if (mask >> (i - 1) & 1) ends.push_back(i);
    ends.push_back(n);
    best = std::min(best, evaluate(gradients, link, ends).finish_s);
  }
  return best;
}

TEST(Segment, FindsTheBestOfAllCuts) {
  const unsigned seed = 8;
  std::mt19937 random(seed);
  for (int trial = 0; trial < 60; ++trial) {
    const auto gradients = random_gradients(1 + static_cast<int>(random() % 11), random);
    const LinkCost link{static_cast<double>(random() % 300) * 1e-6, 1e-9 * (random() % 9)};
    const auto splits = best_splits(gradients, link);
    EXPECT_DOUBLE_EQ(splits[0].finish_s, best_by_trying(gradients, link)) << "trial " << trial;
    for (size_t i = 1; i < splits.size(); ++i) {
      EXPECT_GE(splits[i].finish_s, splits[i - 1].finish_s);
      EXPECT_NE(splits[i].ends.size(), splits[i - 1].ends.size());
    }
    EXPECT_EQ(splits[0].ends.back(), static_cast<int>(gradients.size()));
  }
}

TEST(Segment, TheLimitsAreOneSegmentAndOnePerGradient) {
  std::mt19937 random(2);
  auto gradients = random_gradients(30, random);
  EXPECT_EQ(best_splits(gradients, {10, 1e-9})[0].ends.size(), 1u) << "segments are dear";
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].ready_s = static_cast<double>(i);
  const auto free = best_splits(gradients, {0, 1e-9})[0];
  EXPECT_NEAR(free.tail_s, 1e-9 * static_cast<double>(gradients.back().bytes), 1e-12)
      << "an idle link sends everything as it comes; only the last gradient is left";
}

// A conv net's backward: big, late-in-the-network layers first. 1 Gbit/s, 100 us per segment.
TEST(Segment, BeatsTheDefaultBucketsOfDdp) {
  std::vector<Gradient> gradients;
  double now = 0;
  for (int i = 0; i < 50; ++i) {
    now += 2e-3;
    gradients.push_back({"layer" + std::to_string(50 - i), i < 10 ? 400000 : 120000, now});
  }
  const LinkCost link{100e-6, 8e-9};
  const Split best = best_splits(gradients, link)[0];
  const BucketPlan plan = plan_ddp_buckets(gradients, link);
  const Split usual = ddp_split(gradients, link, 1, 25);
  EXPECT_LT(best.tail_s, 0.2 * usual.tail_s);
  EXPECT_LE(best.tail_s, plan.split.tail_s + 1e-12);
  EXPECT_LT(plan.split.tail_s, usual.tail_s);
  const std::string text = describe(plan, gradients, link);
  EXPECT_NE(text.find("bucket_cap_mb="), std::string::npos) << text;
  EXPECT_NE(text.find("layer1,"), std::string::npos) << text;
}

TEST(Segment, DdpClosesABucketOnceItIsFull) {
  std::vector<Gradient> gradients;
  for (int i = 0; i < 6; ++i) gradients.push_back({"g", 600 << 10, 0.001 * i});
  EXPECT_EQ(ddp_split(gradients, {}, 1, 25).ends, (std::vector<int>{2, 6}));
  EXPECT_EQ(ddp_split(gradients, {}, 1, 1).ends, (std::vector<int>{2, 4, 6}));
}

TEST(Segment, FitsTheLink) {
  std::vector<Transfer> transfers;
  for (const double bytes : {1e3, 1e5, 1e6, 4e6}) transfers.push_back({bytes, 5e-5 + 8e-9 * bytes});
  const LinkCost link = fit_link(transfers);
  EXPECT_NEAR(link.alpha_s, 5e-5, 1e-9);
  EXPECT_NEAR(link.beta_s_per_byte, 8e-9, 1e-14);
  const Transfer steep[] = {{1e6, 1e-3}, {2e6, 4e-3}};
  EXPECT_EQ(fit_link(steep).alpha_s, 0) << "never negative";
  EXPECT_GT(fit_link(steep).beta_s_per_byte, 0);
  const Transfer one[] = {{1e6, 1e-3}};
  EXPECT_GE(fit_link(one).alpha_s, 0);
}

TEST(Segment, RefusesTimesThatGoBackwards) {
  const Gradient wrong[] = {{"a", 1, 2.0}, {"b", 1, 1.0}};
  EXPECT_THROW(best_splits(wrong, {}), InvalidArgument);
  EXPECT_THROW(best_splits({}, {}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::comm
