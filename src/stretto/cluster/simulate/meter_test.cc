#include "stretto/cluster/simulate/meter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/cluster/random.h"

namespace stretto::cluster {
namespace {

TEST(WaitStats, AreThoseOfTheSortedValues) {
  Random random(1);
  for (const size_t count : {1, 2, 3, 19, 20, 21, 99, 100, 101, 1000}) {
    std::vector<int64_t> values(count);
    int64_t sum = 0;
    for (int64_t& value : values) {
      value = static_cast<int64_t>(random.below(count)) * 1000;
      sum += value;
    }
    std::vector<int64_t> sorted = values;
    std::ranges::sort(sorted);
    const auto at = [&](size_t percent) {  // the first that so many percent do not exceed
      return static_cast<double>(sorted[(count * percent + 99) / 100 - 1]) / 1000;
    };
    const WaitStats stats = wait_stats("all", values);
    EXPECT_EQ(stats.jobs, static_cast<int64_t>(count));
    EXPECT_DOUBLE_EQ(stats.mean_s, static_cast<double>(sum) / static_cast<double>(count) / 1000);
    EXPECT_EQ(stats.p50_s, at(50)) << count;
    EXPECT_EQ(stats.p95_s, at(95)) << count;
    EXPECT_EQ(stats.p99_s, at(99)) << count;
    EXPECT_EQ(stats.longest_s, at(100)) << count;
  }
}

TEST(WaitStats, AreZeroWithoutJobs) {
  std::vector<int64_t> none;
  EXPECT_EQ(wait_stats("all", none).jobs, 0);
  EXPECT_EQ(wait_stats("all", none).p99_s, 0);
}

}  // namespace
}  // namespace stretto::cluster
