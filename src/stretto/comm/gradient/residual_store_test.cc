#include "stretto/comm/gradient/residual_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

TEST(ResidualStore, SameLayoutSameMemory) {
  ResidualStore store;
  const ParameterRange layout[] = {{1, 0, 4}, {2, 0, 3}};
  float* first = store.residuals(layout);
  EXPECT_EQ(first[6], 0);
  first[6] = 5;
  EXPECT_EQ(store.residuals(layout), first);
  EXPECT_EQ(first[6], 5);
}

// As DDP does it: one bucket with everything, then several in another order; then cut elsewhere.
TEST(ResidualStore, FollowsParametersThroughRebuilds) {
  ResidualStore store;
  const ParameterRange all[] = {{10, 0, 5}, {11, 0, 3}, {12, 0, 4}};
  float* values = store.residuals(all);
  for (int i = 0; i < 12; ++i) values[i] = static_cast<float>(i + 1);

  const ParameterRange last_first[] = {{12, 0, 4}, {11, 0, 3}};
  const float* rebuilt = store.residuals(last_first);
  EXPECT_EQ(std::vector<float>(rebuilt, rebuilt + 7), (std::vector<float>{9, 10, 11, 12, 6, 7, 8}));

  const ParameterRange half[] = {{10, 2, 3}, {12, 3, 1}};
  const float* cut = store.residuals(half);
  EXPECT_EQ(std::vector<float>(cut, cut + 4), (std::vector<float>{3, 4, 5, 12}));

  const ParameterRange again[] = {{10, 0, 5}, {11, 0, 3}, {12, 0, 4}};
  const float* joined = store.residuals(again);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(joined[i], static_cast<float>(i + 1)) << i;
  EXPECT_EQ(store.elements(), 12);
}

TEST(ResidualStore, RandomRebuildsLoseAndInventNothing) {
  const unsigned seed = 4;
  std::mt19937 random(seed);
  ResidualStore store;
  std::map<std::pair<uint64_t, int64_t>, float> model;
  for (int round = 0; round < 300; ++round) {
    std::vector<ParameterRange> layout;
    for (uint64_t parameter = 0; parameter < 5; ++parameter) {
      if (random() % 2) continue;
      const int64_t begin = static_cast<int64_t>(random() % 8);
      layout.push_back({parameter, begin, 1 + static_cast<int64_t>(random() % 9)});
    }
    std::shuffle(layout.begin(), layout.end(), random);
    float* at = store.residuals(layout);
    for (const ParameterRange& range : layout)
      for (int64_t i = range.begin; i < range.begin + range.count; ++i, ++at) {
        ASSERT_EQ(*at, (model[{range.parameter, i}])) << "seed " << seed << ", round " << round;
        *at = model[{range.parameter, i}] = static_cast<float>(random() % 1000);
      }
  }
}

TEST(ResidualStore, FollowsTheLossScale) {
  ResidualStore store;
  const ParameterRange layout[] = {{1, 0, 2}};
  store.set_loss_scale(1024);
  store.residuals(layout)[0] = 8;
  store.set_loss_scale(512);
  EXPECT_EQ(store.residuals(layout)[0], 4);
  store.set_loss_scale(2048);
  const ParameterRange other[] = {{1, 0, 1}};
  EXPECT_EQ(store.residuals(other)[0], 16);
  store.residuals(other)[0] = 3e38f;
  store.set_loss_scale(65536);
  EXPECT_EQ(store.residuals(other)[0], 0) << "an overflowing residual is dropped";
  EXPECT_THROW(store.set_loss_scale(0), InvalidArgument);
  EXPECT_THROW(store.set_loss_scale(std::numeric_limits<double>::infinity()), InvalidArgument);
}

}  // namespace
}  // namespace stretto::comm
