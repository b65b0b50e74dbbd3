#include "stretto/comm/tuning/tuning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace stretto::comm {
namespace {

// A cluster with a best setting: 2 MiB units, 4 streams, "hierarchical".
double step_time(const StepSetting& s) {
  const double units = std::abs(std::log2(static_cast<double>(s.unit_bytes) / (2 << 20)));
  const double streams = std::abs(std::log2(s.streams / 4.0));
  return 0.1 * (1 + 0.08 * units) * (1 + 0.1 * streams) * (s.algorithm == "ring" ? 1.2 : 1.0);
}

StepTunerOptions options() { return {.algorithms = {"direct", "hierarchical", "ring"}}; }
const StepSetting kStart{.unit_bytes = 256 << 10, .streams = 1, .algorithm = "ring"};

int steps_until_settled(StepTuner& tuner, const auto& time, int limit = 5000) {
  int steps = 0;
  while (!tuner.settled() && steps < limit) {
    tuner.step(time(tuner.current()));
    ++steps;
  }
  return steps;
}

TEST(StepTuner, ClimbsToTheBestThroughNoise) {
  const unsigned seed = 12;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  int trials = 0;
  for (int run = 0; run < 20; ++run) {
    StepTuner tuner(options(), kStart);
    const int steps = steps_until_settled(tuner, [&](const StepSetting& s) {
      const double outlier = random() % 20 == 0 ? 3 : 1;  // a step that waited for its data
      return step_time(s) * (1 + 0.01 * normal(random)) * outlier;
    });
    EXPECT_LT(steps, 800);
    EXPECT_LT(step_time(tuner.best()), 1.05 * 0.1) << setting_text(tuner.best());
    trials += static_cast<int>(tuner.history().size());
  }
  EXPECT_LT(trials / 20, 25);
}

TEST(StepTuner, LeavesABadStartWithinFiftySteps) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (const StepSetting& start :
       {kStart, StepSetting{.unit_bytes = 128 << 10, .streams = 8, .algorithm = "ring"},
        StepSetting{.unit_bytes = 4 << 20, .streams = 1, .algorithm = "direct"}}) {
    StepTuner tuner(options(), start);
    for (int step = 0; step < 50; ++step)
      tuner.step(step_time(tuner.current()) * (1 + 0.01 * normal(random)));
    EXPECT_LT(step_time(tuner.best()), 1.1 * 0.1)
        << setting_text(start) << " -> " << setting_text(tuner.best());
  }
}

TEST(StepTuner, RarelyRunsWhatIsSlower) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  StepTuner tuner(options(), kStart);
  std::vector<double> times;
  for (int step = 0; step < 300; ++step) {
    times.push_back(step_time(tuner.current()));
    tuner.step(times.back() * (1 + 0.01 * normal(random)));
  }
  const double seconds = std::accumulate(times.begin() + 50, times.end(), 0.0);
  EXPECT_LT(seconds, 1.05 * 250 * 0.1) << "after the survey";
}

// A survey's few steps may have been fast by chance.
TEST(StepTuner, GoesBackToTheStartIfTheSurveyWasWrong) {
  StepTuner tuner(options(), kStart);
  const auto unlucky = [&](const StepSetting& s) {
    const auto& tried = tuner.history();
    const bool surveying =
        tried.size() < 8;  // two algorithms, three units, three numbers of streams
    if (surveying) return s == kStart ? 0.2 : 0.1;
    return s == kStart ? 0.1 : 0.15;
  };
  steps_until_settled(tuner, unlucky);
  EXPECT_EQ(tuner.best(), kStart);
}

TEST(StepTuner, SameTimesGiveTheSameSettingsOnEveryRank) {
  StepTuner a(options(), kStart), b(options(), kStart);
  std::mt19937 random(5);
  for (int step = 0; step < 1000; ++step) {
    const double seconds = step_time(a.current()) * (0.9 + 0.0002 * (random() % 1000));
    const StepSetting before = a.current();
    const bool changed = a.step(seconds);
    EXPECT_EQ(b.step(seconds), changed);
    EXPECT_EQ(a.current(), b.current());
    EXPECT_EQ(changed, !(a.current() == before));
  }
}

TEST(StepTuner, ChangesNothingBeforeADecision) {
  StepTuner tuner(options(), kStart);
  std::mt19937 random(9);
  for (int decision = 0; decision < 200; ++decision) {
    const int steps = tuner.steps_to_decision();
    ASSERT_GT(steps, 0);
    for (int step = 0; step < steps; ++step) {
      const bool changed =
          tuner.step(step_time(tuner.current()) * (0.9 + 0.0002 * (random() % 1000)));
      EXPECT_FALSE(changed && step + 1 < steps) << "step " << step << " of " << steps;
    }
  }
}

TEST(StepTuner, NearTiesChangeNothing) {
  StepTuner tuner(options(), kStart);
  steps_until_settled(tuner, [](const StepSetting& s) { return s == kStart ? 0.1 : 0.098; });
  EXPECT_EQ(tuner.best(), kStart);
  for (const auto& tried : tuner.history()) EXPECT_FALSE(tried.won);
}

TEST(StepTuner, TunesAgainWhenConditionsDrift) {
  StepTuner tuner(options(), kStart);
  steps_until_settled(tuner, step_time);
  ASSERT_TRUE(tuner.settled());
  const StepSetting before = tuner.best();
  for (int step = 0; step < 200; ++step) tuner.step(1.05 * step_time(tuner.current()));
  EXPECT_TRUE(tuner.settled()) << "5 % is no drift";
  // The link has changed: now one stream is best and everything takes longer.
  const auto slower = [](const StepSetting& s) { return 0.2 * (1 + 0.2 * std::log2(s.streams)); };
  for (int step = 0; step < 60; ++step) tuner.step(slower(tuner.current()));
  EXPECT_FALSE(tuner.settled());
  steps_until_settled(tuner, slower);
  EXPECT_EQ(tuner.best().streams, 1);
  EXPECT_NE(tuner.best(), before);
}

TEST(StepTuner, LeavesTheNumberOfStreamsToTheLinksUnlessAnyBeatsThem) {
  const StepTunerOptions streams_only{.unit_bytes = {1 << 20}, .streams = {1, 2, 4, 8}};
  StepTuner content(streams_only, {});
  steps_until_settled(content, [](const StepSetting& s) { return s.streams == 0 ? 0.1 : 0.11; });
  EXPECT_EQ(content.best().streams, 0);
  EXPECT_EQ(content.history().size(), 4u) << "each was tried";
  StepTuner other(streams_only, {});
  steps_until_settled(other, [](const StepSetting& s) { return s.streams == 8 ? 0.08 : 0.1; });
  EXPECT_EQ(other.best().streams, 8);
}

TEST(StepTuner, AnExhaustiveSearchFindsABestBehindWorseNeighbours) {
  // Units of 256 KiB and 1 MiB are slower than 512 KiB, 4 MiB are fastest.
  const auto valley = [](const StepSetting& s) {
    return s.unit_bytes == 4 << 20 ? 0.08 : s.unit_bytes == 512 << 10 ? 0.1 : 0.12;
  };
  const StepSetting start{.unit_bytes = 512 << 10, .streams = 2};
  StepTunerOptions options{.streams = {2}};
  StepTuner climbing(options, start);
  steps_until_settled(climbing, valley);
  EXPECT_EQ(climbing.best().unit_bytes, 512 << 10);
  options.exhaustive = true;
  StepTuner exhaustive(options, start);
  steps_until_settled(exhaustive, valley);
  EXPECT_EQ(exhaustive.best().unit_bytes, 4 << 20);
}

TEST(StepTuner, NothingToTryIsSettledAtOnce) {
  StepTuner tuner({.unit_bytes = {1 << 20}, .streams = {2}}, {.streams = 2});
  EXPECT_TRUE(tuner.settled());
  EXPECT_FALSE(tuner.step(0.1));
}

TEST(StepTuner, RemembersThroughTheTuningCache) {
  StepTuner tuner(options(), kStart);
  steps_until_settled(tuner, step_time);
  tune::TuningCache cache;
  const std::string key = setting_key("resnet50 25557032", "2x2 1000Mbit");
  EXPECT_EQ(recall_setting(cache, key, kStart), kStart);
  remember_setting(cache, key, tuner);
  const tune::TuningCache read = tune::TuningCache::parse(cache.text(), "cache");
  EXPECT_EQ(recall_setting(read, key, kStart), tuner.best());
  EXPECT_EQ(recall_setting(read, setting_key("other", "2x2"), kStart), kStart);
}

TEST(StepTuner, SettingsAsText) {
  const StepSetting plain{};
  EXPECT_EQ(parse_setting(setting_text(plain)), plain);
  EXPECT_EQ(parse_setting(setting_text(kStart)), kStart);
  for (const char* wrong :
       {"", "unit=1", "unit=x streams=2 algorithm=", "unit=1 streams=-1 algorithm=",
        "streams=1 unit=1 algorithm=a", "unit=1 streams=2x algorithm=a"})
    EXPECT_EQ(parse_setting(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace stretto::comm
