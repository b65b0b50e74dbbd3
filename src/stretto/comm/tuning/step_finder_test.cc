#include "stretto/comm/tuning/step_finder.h"

#include <gtest/gtest.h>

#include <vector>

namespace stretto::comm {
namespace {

using Event = StepFinder::Event;
constexpr int64_t kMiB = 1 << 20;

// Feeds (hash, bytes) pairs and counts the events.
struct Counts {
  int models = 0, steps = 0, others = 0;
};
Counts feed(StepFinder& finder, const std::vector<std::pair<uint64_t, int64_t>>& operations,
            int times) {
  Counts counts;
  for (int i = 0; i < times; ++i) {
    for (const auto& [hash, bytes] : operations) {
      const Event event = finder.operation(hash, bytes);
      counts.models += event == Event::kModel;
      counts.steps += event == Event::kStep;
      counts.others += event == Event::kOther;
    }
  }
  return counts;
}

TEST(StepFinder, FindsARepeatingSequence) {
  StepFinder finder;
  feed(finder, {{90, 4}, {91, 4}, {92, 100 * kMiB}}, 1);  // what comes before training
  const Counts counts = feed(finder, {{1, 25 * kMiB}, {2, 25 * kMiB}, {3, 4}}, 100);
  EXPECT_EQ(counts.models, 1);
  EXPECT_EQ(counts.others, 0);
  // 64 operations are the least evidence, and the one after them begins the first step.
  EXPECT_EQ(counts.steps, (300 - 65) / 3);
  EXPECT_EQ(finder.model().substr(0, 24), "3 operations, 50.00 MiB,");
}

TEST(StepFinder, LayersOfEqualSizeAreOneStep) {
  StepFinder finder;
  std::vector<std::pair<uint64_t, int64_t>> step(24, {7, 25 * kMiB});
  step.push_back({8, 3 * kMiB});
  feed(finder, step, 10);
  EXPECT_EQ(finder.model().substr(0, 14), "25 operations,") << finder.model();
}

TEST(StepFinder, ShortStepsAreJoinedAndTinyOnesIgnored) {
  StepFinder finder;
  const Counts counts = feed(finder, {{1, kMiB}}, 64 + 1 + 80);
  EXPECT_EQ(counts.steps, 10);  // of 8 MiB each
  StepFinder tiny;
  EXPECT_EQ(feed(tiny, {{1, 4}, {2, 4096}}, 200).models, 0);
}

TEST(StepFinder, AStrangerSpoilsOneStepAndManyEndTheModel) {
  StepFinder finder;
  const std::vector<std::pair<uint64_t, int64_t>> step = {{1, 9 * kMiB}, {2, 9 * kMiB}};
  feed(finder, step, 40);
  const std::string model = finder.model();
  Counts counts = feed(finder, {{50, 4}}, 1);  // a loss that is averaged now and then
  EXPECT_EQ(counts.others, 0);
  counts = feed(finder, step, 10);
  EXPECT_EQ(counts.others, 1);
  EXPECT_EQ(counts.steps, 9);
  EXPECT_EQ(feed(finder, {{60, 4}, {61, 8}}, 10).others, 1);  // an evaluation
  EXPECT_EQ(feed(finder, step, 40).models, 1);
  EXPECT_EQ(finder.model(), model);
}

TEST(StepFinder, TheCallersStepsCount) {
  StepFinder finder;
  Counts counts;
  for (int i = 0; i < 20; ++i) {
    // The first step of a training is often another.
    feed(finder,
         i == 0 ? std::vector<std::pair<uint64_t, int64_t>>{{9, 100 * kMiB}}
                : std::vector<std::pair<uint64_t, int64_t>>{{1, kMiB}, {1, kMiB}},
         1);
    const Event event = finder.step();
    counts.models += event == Event::kModel;
    counts.steps += event == Event::kStep;
  }
  EXPECT_EQ(counts.models, 1);
  EXPECT_EQ(counts.steps, 20 - 1 - 3);
  EXPECT_EQ(finder.model().substr(0, 23), "2 operations, 2.00 MiB,");
}

}  // namespace
}  // namespace stretto::comm
