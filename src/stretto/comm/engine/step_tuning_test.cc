#include "stretto/comm/engine/step_tuning.h"

#include <gtest/gtest.h>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

using Event = StepFinder::Event;

// A group of two hosts as rank 1 sees it, which reads no tuning cache.
struct Pair {
  Pair() {
    options.tuning_cache = "/nonexistent";
    group.ranks = {0, 1};
    group.rank = 1;
    group.placement = Placement({0, 1});
    group.tuning = make_step_tuning(group, options, 4);
  }
  StepTuning& tuning() { return *group.tuning; }
  StepEnd end(const StepMark& mark) { return end_step(tuning(), group, options, mark); }
  // The other rank has sent the same words.
  void agree() { tuning().agreed = true; }

  Options options;
  GroupState group;
};

StepMark mark_of(Event event, double seconds = 0.5) {
  return {.event = event, .seconds = seconds, .model = "a model"};
}

TEST(StepTuning, AsksForSettingsWhenItKnowsTheModelAndUsesThemAStepLater) {
  Pair pair;
  EXPECT_FALSE(awaits_agreement(pair.tuning()));
  EXPECT_FALSE(pair.end(mark_of(Event::kStep)).asks) << "no model is known";
  EXPECT_TRUE(pair.end(mark_of(Event::kModel)).asks);
  EXPECT_TRUE(awaits_agreement(pair.tuning()));
  EXPECT_FALSE(pair.tuning().settings->tuned);
  pair.agree();
  EXPECT_FALSE(awaits_agreement(pair.tuning()));
  const StepEnd end = pair.end(mark_of(Event::kStep));
  EXPECT_TRUE(end.changed);
  EXPECT_TRUE(pair.tuning().settings->tuned);
  EXPECT_FALSE(end.remember);
}

TEST(StepTuning, AsksForTimesWhenADecisionNeedsThem) {
  Pair pair;
  pair.end(mark_of(Event::kModel));
  pair.agree();
  int steps = 1;
  for (; !pair.end(mark_of(Event::kStep, steps)).asks; ++steps) ASSERT_LT(steps, 100);
  const StepTuning& tuning = pair.tuning();
  EXPECT_EQ(steps, tuning.tuner->steps_to_decision());
  ASSERT_GE(std::ssize(tuning.words), steps);
  EXPECT_EQ(tuning.words.back(), steps) << "the times stand at the end, the last one last";
  EXPECT_EQ(tuning.words[tuning.words.size() - static_cast<size_t>(steps)], 1);
}

TEST(StepTuning, TakesWhatTheFirstRankHasInItsTuningCache) {
  Pair pair;
  pair.end(mark_of(Event::kModel));
  const size_t choice = pair.tuning().words.size() - 5;
  const double words[] = {0.25, 1 << 20, 4, 0, 1};
  std::copy(std::begin(words), std::end(words),
            pair.tuning().words.begin() + static_cast<ptrdiff_t>(choice));
  pair.agree();
  pair.end(mark_of(Event::kStep));
  EXPECT_TRUE(pair.tuning().recalled);
  EXPECT_EQ(pair.tuning().settings->step,
            (StepSetting{.unit_bytes = 1 << 20, .streams = 4, .algorithm = ""}));
}

TEST(StepTuning, HoldsMarksAndWhatFollowsThemWhileTheRanksAgree) {
  Pair pair;
  StepTuning& tuning = pair.tuning();
  EXPECT_FALSE(hold(tuning, mark_of(Event::kModel)));
  EXPECT_FALSE(holds(tuning));
  pair.end(mark_of(Event::kModel));
  EXPECT_FALSE(holds(tuning)) << "operations of the step under way go on";

  EXPECT_TRUE(hold(tuning, mark_of(Event::kStep, 1)));
  EXPECT_TRUE(holds(tuning));
  OpenOperation first, second;
  hold(tuning, &first);
  EXPECT_TRUE(hold(tuning, mark_of(Event::kStep, 2)));
  hold(tuning, &second);
  EXPECT_FALSE(take_held(tuning));

  pair.agree();
  auto held = take_held(tuning);
  ASSERT_TRUE(held && !held->open);
  EXPECT_EQ(held->mark.seconds, 1);
  tuning.asks = StepTuning::Asks::kTime;  // as if a decision were due at its end
  tuning.agreed = false;
  held = take_held(tuning);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->open, &first) << "operations wait for the mark before them only";
  EXPECT_FALSE(take_held(tuning)) << "the next mark waits for the next agreement";

  pair.agree();
  held = take_held(tuning);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->mark.seconds, 2);
  EXPECT_EQ(take_held(tuning)->open, &second);
  EXPECT_FALSE(take_held(tuning));
  EXPECT_FALSE(holds(tuning));
}

TEST(StepTuning, FindsStepsInAllReducesByTheirBytesAndInOthersByTheirKind) {
  Pair pair;
  Event event = Event::kNothing;
  for (int i = 0; i < 100 && event == Event::kNothing; ++i) {
    event = find_step(pair.tuning(), {.count = 1 << 20});
    if (event == Event::kNothing)
      event = find_step(pair.tuning(), {.kind = Kind::kBroadcast, .count = 1 << 20});
  }
  EXPECT_EQ(event, Event::kModel);
  EXPECT_EQ(pair.tuning().finder.model().substr(0, 22), "2 operations, 4.00 MiB");
}

}  // namespace
}  // namespace stretto::comm
