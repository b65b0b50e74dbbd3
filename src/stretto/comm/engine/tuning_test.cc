// The engine's settings while it looks for them on steps: every rank changes at the same operation,
// no bit of a result changes, and what was found is known the next time.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/tuning/tuning.h"
#include "stretto/tune/cache_file.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;

constexpr int kSize = 4;
constexpr int64_t kCount = 150'001;

struct Outcome {
  std::vector<float> first;
  bool same = true;
  TuningStatistics tuning;
};

// `steps` steps of two all-reduces on 2 x 2 ranks.
std::vector<Outcome> train(int steps, const std::string& cache, bool says_steps,
                           Tuning tuning = Tuning::kQuick) {
  std::vector<Outcome> outcomes(kSize);
  expect_no_errors(run_ranks(
      kSize,
      [&](int rank) {
        Options options = testing::two_hosts(rank);
        options.tuning = tuning;
        options.tuning_cache = cache;
        return options;
      },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Outcome& outcome = outcomes[rank];
        const std::vector<float> values = testing::values_of(rank, kCount);
        for (int step = 0; step < steps; ++step) {
          std::vector<float> big = values, small(100, 1.0f);
          const Handle a = engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                                  .count = kCount,
                                                  .input = big.data(),
                                                  .output = big.data()});
          const Handle b = engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                                  .count = 100,
                                                  .input = small.data(),
                                                  .output = small.data()});
          if (says_steps) engine.step();
          engine.wait(a);
          engine.wait(b);
          if (step == 0) outcome.first = big;
          outcome.same &=
              std::memcmp(big.data(), outcome.first.data(), kCount * sizeof(float)) == 0;
        }
        const Statistics statistics = engine.statistics();
        EXPECT_EQ(statistics.operations, 2 * steps) << "what ranks agree with is not counted";
        if (!statistics.tuning.empty()) outcome.tuning = statistics.tuning[0];
      }));
  return outcomes;
}

TEST(EngineTuning, RanksChangeTogetherAndNoBitChanges) {
  for (const bool says_steps : {true, false}) {
    const auto cache = std::filesystem::temp_directory_path() /
                       ("stretto_tuning_test_" + std::to_string(getpid()));
    std::filesystem::remove(cache);
    // A trial takes 28 steps. Without being told, the engine waits for 64 operations, and joins 15
    // of these steps to one that is worth measuring.
    const auto outcomes = train(says_steps ? 60 : 520, cache, says_steps);
    for (const Outcome& outcome : outcomes) {
      EXPECT_TRUE(outcome.same);
      EXPECT_EQ(std::memcmp(outcome.first.data(), outcomes[0].first.data(), kCount * 4), 0);
      EXPECT_EQ(outcome.tuning.group, "world");
      EXPECT_GE(outcome.tuning.tried.size(), 1u) << outcome.tuning.model;
      ASSERT_EQ(outcome.tuning.tried.size(), outcomes[0].tuning.tried.size());
      for (size_t i = 0; i < outcome.tuning.tried.size(); ++i) {
        EXPECT_EQ(outcome.tuning.tried[i].setting, outcomes[0].tuning.tried[i].setting);
        EXPECT_EQ(outcome.tuning.tried[i].won, outcomes[0].tuning.tried[i].won);
      }
    }
    std::filesystem::remove(cache);
  }
}

TEST(EngineTuning, WhatTheTuningCacheKnowsIsInUseAtOnce) {
  const auto cache =
      std::filesystem::temp_directory_path() / ("stretto_recall_test_" + std::to_string(getpid()));
  std::filesystem::remove(cache);
  const auto before = train(10, cache, true);
  ASSERT_FALSE(before[0].tuning.model.empty());
  EXPECT_FALSE(before[0].tuning.recalled);
  tune::TuningCache known;
  known.put(setting_key(before[0].tuning.model, "8 streams, 1 interfaces, ranks 2 2"),
            {"unit=131072 streams=4 algorithm=hierarchical", 10.0});
  ASSERT_TRUE(tune::add_to_tuning_cache(cache, known));
  for (const Outcome& outcome : train(10, cache, true)) {
    EXPECT_TRUE(outcome.tuning.recalled);
    EXPECT_TRUE(outcome.tuning.settled);
    EXPECT_EQ(outcome.tuning.setting, "unit=131072 streams=4 algorithm=hierarchical");
    EXPECT_TRUE(outcome.same);
    EXPECT_EQ(std::memcmp(outcome.first.data(), before[0].first.data(), kCount * 4), 0);
  }
  for (const Outcome& outcome : train(10, cache, true, Tuning::kFull)) {
    EXPECT_FALSE(outcome.tuning.recalled);
    EXPECT_FALSE(outcome.tuning.settled) << "a full search does not trust the tuning cache";
    EXPECT_TRUE(outcome.same);
  }
  for (const Outcome& outcome : train(10, cache, true, Tuning::kOff)) {
    EXPECT_FALSE(outcome.tuning.recalled);
    EXPECT_TRUE(outcome.tuning.tried.empty());
  }
  std::filesystem::remove(cache);
}

}  // namespace
}  // namespace stretto::comm
